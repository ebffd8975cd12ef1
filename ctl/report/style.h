/* SPDX-License-Identifier: Apache-2.0 */
/* How the page of a report looks, and the little that moves on it. */
#ifndef DT_CTL_REPORT_STYLE_H
#define DT_CTL_REPORT_STYLE_H

/* CSS, behind that of base/palette: narrow screens, paper, and what only a report has. */
extern const char dt_report_style[];

/* JavaScript, without which nothing is missing but the values under the pointer. Both hold no
 * character that XML would have escaped. */
extern const char dt_report_script[];

#endif
