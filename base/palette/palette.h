/* SPDX-License-Identifier: Apache-2.0 */
/* The colours that our pages share, light, dark and on paper: palette.css as a string, with the
 * names of custom properties. */
#ifndef DT_BASE_PALETTE_PALETTE_H
#define DT_BASE_PALETTE_PALETTE_H

/* CSS that holds no character which XML would have escaped. */
extern const char dt_palette[];

#endif
