/* A four-dimensional view of a flat tensor, shared by the copy out of it and that copy's gradient. */
#ifndef POET_OPS_STRIDED_H
#define POET_OPS_STRIDED_H

#include "shape.h"

/* Elements of the view, or 0 if the parameters make no sense or the view leaves the tensor. */
uint32_t poet_strided_count(const int32_t *params);

#endif
