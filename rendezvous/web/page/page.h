/* SPDX-License-Identifier: Apache-2.0 */
/* The page that a rendezvous shows to browsers: one document, style and scripts in it, which asks
 * for nothing but status.json and events beside it. make_page.py makes it of this folder's files.
 */
#ifndef DT_RENDEZVOUS_WEB_PAGE_PAGE_H
#define DT_RENDEZVOUS_WEB_PAGE_PAGE_H

#include <stddef.h>

/* HTML in UTF-8, without a NUL at its end. It holds no secret: it asks for the token itself. */
extern const unsigned char dt_web_page[];
extern const size_t dt_web_page_len;

/* The value of Content-Security-Policy, which has to go with it: of all scripts and styles, only
 * those in the page count. */
extern const char dt_web_page_policy[];

#endif
