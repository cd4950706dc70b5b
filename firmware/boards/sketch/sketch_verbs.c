/* SPDX-License-Identifier: Apache-2.0 */
/* `about`, what a board's file says of a board that poet does not know; and `hello` with what a sketch adds. */
#include "sketch.h"

#include "poet/board.h"
#include "protocol/reply.h"
#include "protocol/verbs.h"

#if defined(__XTENSA__)
#include <xtensa/config/core-isa.h>
#endif

#if defined(__has_include)
#if __has_include("identity.h") /* of the library's sources, by its writer */
#include "identity.h"
#endif
#endif
#ifndef POET_SKETCH_ID
#define POET_SKETCH_ID "unknown"
#endif

#define TEXT(number) TEXT_(number)
#define TEXT_(number) #number
#define LINE_BYTES 240u /* the USB serial of some cores keeps 256 bytes, and loses the rest */

#if defined(__riscv_flen)
#define CORE "riscv" TEXT(__riscv_xlen) "f"
#define FPU 1u
#elif defined(__riscv)
#define CORE "riscv" TEXT(__riscv_xlen)
#elif defined(__XTENSA__) && XCHAL_HAVE_FP
#define CORE "xtensaf"
#define FPU 1u
#elif defined(__XTENSA__)
#define CORE "xtensa"
#elif defined(__ARM_ARCH_8M_MAIN__)
#define CORE "cortex-m33"
#elif defined(__ARM_ARCH_7EM__) && defined(__ARM_FP) && (__ARM_FP & 8) != 0
#define CORE "cortex-m7"
#elif defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)
#define CORE "cortex-m4f"
#elif defined(__ARM_ARCH_7EM__)
#define CORE "cortex-m4"
#elif defined(__ARM_ARCH_7M__)
#define CORE "cortex-m3"
#elif defined(__ARM_ARCH_6M__)
#define CORE "cortex-m0plus"
#elif defined(__x86_64__)
#define CORE "native"
#define FPU 1u
#else
#define CORE "unknown"
#endif

#if !defined(FPU) && defined(__ARM_FP)
#define FPU 1u
#elif !defined(FPU)
#define FPU 0u
#endif

#ifdef __clang__
#define COMPILER "clang-" TEXT(__clang_major__) "." TEXT(__clang_minor__)
#else
#define COMPILER "gcc-" TEXT(__GNUC__) "." TEXT(__GNUC_MINOR__)
#endif

#if defined(__OPTIMIZE_SIZE__)
#define OPTIMISED "-Os"
#elif defined(__OPTIMIZE__)
#define OPTIMISED "-O"
#else
#define OPTIMISED "-O0"
#endif

static const char *board_name = "sketch";

void poet_sketch_name(const char *name)
{
    board_name = name;
}

static int about(poet_server *server, poet_text *answer)
{
    poet_sensors sensors = {0};
    poet_block_device card;
    poet_board_sensors(&sensors);
    poet_reply_string(answer, "core", CORE);
    poet_reply_number(answer, "fpu", FPU);
    poet_reply_number(answer, "clock_hz", (uint64_t)sensors.cpu_khz * 1000u);
    poet_reply_string(answer, "compiler", COMPILER);
    poet_reply_string(answer, "optimised", OPTIMISED);
    poet_reply_string(answer, "arithmetic", poet_arithmetic_is_ieee() ? "ieee" : "other");
    poet_reply_number(answer, "operators", (uint32_t)poet_all_operators.count);
    if (poet_board_storage(&card) == POET_OK) {
        poet_reply_number(answer, "blocks", card.block_count);
        poet_reply_number(answer, "overlaps", card.start_read != NULL);
        poet_reply_number(answer, "memory", card.forgets);
    }
    server->card_up = false; /* it was started anew */
    return POET_OK;
}

int poet_sketch_command(poet_server *server, const char *body, poet_text *answer)
{
    if (poet_read_word(&body, "load")) {
        return poet_verb_load(server, body, answer);
    }
    const bool hello = poet_read_word(&body, "hello");
    if ((!hello && !poet_read_word(&body, "about")) || !poet_arguments_end(body)) {
        return POET_MORE;
    }
    if (!hello) {
        return about(server, answer);
    }
    poet_hello(server, board_name, POET_SKETCH_ID "," COMPILER OPTIMISED, answer);
    poet_reply_number(answer, "line", LINE_BYTES);
    poet_reply_number(answer, "loads", 1);
    return POET_OK;
}
