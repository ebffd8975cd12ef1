/* SPDX-License-Identifier: Apache-2.0 */
/* Where a tokenizer of byte-level tokens cuts a text, by the names that llama.cpp has for it: it
 * knows patterns by name and reads none. */
#ifndef DT_WORKER_RUNTIME_EXPORT_GGUF_CUTS_H
#define DT_WORKER_RUNTIME_EXPORT_GGUF_CUTS_H

struct cJSON;

/* FILE: all of a tokenizer.json. "llama-bpe"; NULL: none that is known here. */
const char *dt_gguf_cuts_name(const struct cJSON *file);

#endif
