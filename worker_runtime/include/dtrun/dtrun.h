/* SPDX-License-Identifier: Apache-2.0 */
/* libdtrun, all of it: what a training process needs to run as a worker of dtrun. */
#ifndef DTRUN_H
#define DTRUN_H

#include <dtrun/api.h>
#include <dtrun/checkpoint.h>
#include <dtrun/coll.h>
#include <dtrun/context.h>
#include <dtrun/data.h>
#include <dtrun/dtype.h>
#include <dtrun/page.h>
#include <dtrun/zero.h>

#endif
