/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: the inner loops of the optimiser, without Python in them (docs/optimiser/engine.md).
 *
 * A struct is a list of fields, which gives its declaration and the text that Python compares with its own class:
 *
 *     #define POINT(ARRAY, TABLE, SCALAR) ARRAY(double, x) TABLE(int64_t, near) SCALAR(bool, fixed)
 *     STRUCT(point, POINT);               // in the header
 *     FIELDS(point, POINT)                // in the C file
 *
 * An array comes with its count, a table with rows and columns, row by row. Python owns all of them. Nothing here keeps
 * a pointer beyond its call, and nothing is static: several threads run it at once. */
#ifndef POET_ENGINE_H
#define POET_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#define ENGINE_ARRAY_FIELD(type, name) \
    type *name;                        \
    int64_t name##_count;
#define ENGINE_TABLE_FIELD(type, name) \
    type *name;                        \
    int64_t name##_rows;               \
    int64_t name##_columns;
#define ENGINE_SCALAR_FIELD(type, name) type name;

#define ENGINE_ARRAY_TEXT(type, name) "array " #type " " #name "\n"
#define ENGINE_TABLE_TEXT(type, name) "table " #type " " #name "\n"
#define ENGINE_SCALAR_TEXT(type, name) "scalar " #type " " #name "\n"

#define STRUCT(name, LIST)                                                \
    struct name {                                                         \
        LIST(ENGINE_ARRAY_FIELD, ENGINE_TABLE_FIELD, ENGINE_SCALAR_FIELD) \
    }
#define FIELDS(name, LIST)             \
    extern const char name##_fields[]; \
    const char name##_fields[] = LIST(ENGINE_ARRAY_TEXT, ENGINE_TABLE_TEXT, ENGINE_SCALAR_TEXT);

#endif
