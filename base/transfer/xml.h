/* SPDX-License-Identifier: Apache-2.0 */
/* The little XML that stores of objects answer: elements and text. What they never send (a document
 * type, entities of one's own, sections of raw text) is refused, and all depths and lengths are
 * bounded, as the bytes may come from anybody. Pure. */
#ifndef DT_BASE_TRANSFER_XML_H
#define DT_BASE_TRANSFER_XML_H

#include "base/buf.h"
#include "base/err.h"

#define DT_XML_DEPTH 8
#define DT_XML_PATH 256  /* bytes of the names of an element and those around it */
#define DT_XML_TEXT 4096 /* bytes of an element's own text */

/* An element has ended. PATH has the names from the outermost on, without prefixes of namespaces:
 * "ListBucketResult/Contents/Key". TEXT is what stands in it outside of other elements, with
 * entities resolved and without a NUL. Both are the walker's. Not 0 ends the walk. */
typedef int dt_xml_fn(void *arg, const char *path, const char *text, struct dt_err *err);

/* Goes through one document, the elements in the order in which they end. */
int dt_xml_walk(struct dt_bytes document, dt_xml_fn *on_element, void *arg, struct dt_err *err);

#endif
