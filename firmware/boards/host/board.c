/* SPDX-License-Identifier: Apache-2.0 */
/* This computer as a board: serial line on standard input and output, a file as the card, RAM of any size.
 *
 *     program [--card FILE] [--ram BYTES] [--window FILE] [--sysfs DIR]
 *
 * The card's FILE is made (sparse) if it is missing; without it there is no card. RAM is 64 MB unless given. The marker
 * line is a FILE to which 1 and 0 are written, such as a GPIO's value; without it there is none. DIR, instead of /sys,
 * is where the kernel shows the processor's clock and temperature. The program ends when its input ends. There is no
 * interrupt; libc is allowed here, and only here.
 */
#define _GNU_SOURCE

#include "poet/board.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "poet/status.h"

#define DEFAULT_RAM_BYTES (64u << 20)
#define NEW_CARD_BYTES ((off_t)256 << 20)
#define COLDEST_MC (-55000L)
#define HOTTEST_MC 150000L

const char poet_board_name[] = "host";
/* Microseconds: a count of 32 bits then lasts an hour, and no operator or schedule step takes as long. */
const uint32_t poet_board_ticks_hz = 1000000u;

static const char usage[] = "expected [--card FILE] [--ram BYTES] [--window FILE] [--sysfs DIR], not";
static char arguments[4096]; /* every argument, each with its zero byte */
static const char *card_path;
static const char *sysfs = "/sys";
static uint8_t *ram;
static uint32_t ram_size = DEFAULT_RAM_BYTES;
static int card = -1;
static int window_line = -1;

__attribute__((noreturn)) static void stop(const char *why, const char *what)
{
    fprintf(stderr, "poet host board: %s %s\n", why, what);
    exit(2);
}

static uint32_t parse_bytes(const char *text)
{
    char *end;
    errno = 0;
    const unsigned long long bytes = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || bytes < 1024u || bytes > UINT32_MAX - 8u) {
        stop("--ram takes a number of bytes from 1024, not", text);
    }
    return (uint32_t)bytes;
}

static void open_window(const char *path)
{
    window_line = open(path, O_WRONLY);
    if (window_line < 0 || write(window_line, "0", 1) != 1) {
        stop("cannot write to", path);
    }
}

/* The core's main has no arguments (a microcontroller has none to give), so they come from the kernel. */
static void read_arguments(void)
{
    const int file = open("/proc/self/cmdline", O_RDONLY);
    const ssize_t length = file < 0 ? 0 : read(file, arguments, sizeof arguments - 1u);
    if (file >= 0) {
        close(file);
    }
    const char *end = arguments + (length > 0 ? length : 0);
    for (const char *word = arguments + strlen(arguments) + 1u; word < end;) {
        const char *value = word + strlen(word) + 1u;
        if (value >= end) {
            stop(usage, word);
        }
        if (strcmp(word, "--card") == 0) {
            card_path = value;
        } else if (strcmp(word, "--ram") == 0) {
            ram_size = parse_bytes(value);
        } else if (strcmp(word, "--window") == 0) {
            open_window(value);
        } else if (strcmp(word, "--sysfs") == 0) {
            sysfs = value;
        } else {
            stop(usage, word);
        }
        word = value + strlen(value) + 1u;
    }
}

void poet_board_init(void)
{
    read_arguments();
    ram = calloc(1, ram_size); /* aligned for any type */
    if (ram == NULL) {
        stop("this computer has no memory for", "--ram");
    }
}

/* --- time --- */

uint32_t poet_board_ticks(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u);
}

void poet_board_idle(uint32_t ticks)
{
    struct timespec left = {(time_t)(ticks / 1000000u), (long)(ticks % 1000000u) * 1000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

void poet_board_window(bool inside)
{
    if (window_line >= 0 && write(window_line, inside ? "1" : "0", 1) != 1) {
        stop("cannot write to", "--window");
    }
}

uint32_t poet_board_boot_id(void)
{
    static uint32_t id;
    if (id == 0) {
        id = (poet_board_ticks() ^ (uint32_t)getpid() * 2654435761u) | 1u;
    }
    return id;
}

/* --- serial line --- */

static char output[4096];
static size_t output_length;

void poet_board_flush(void)
{
    for (size_t done = 0; done < output_length;) {
        const ssize_t written = write(STDOUT_FILENO, output + done, output_length - done);
        if (written < 0 && errno != EINTR) {
            exit(0); /* nobody listens any more */
        }
        done += written > 0 ? (size_t)written : 0u;
    }
    output_length = 0;
}

void poet_board_putchar(char byte)
{
    if (output_length == sizeof output) {
        poet_board_flush();
    }
    output[output_length++] = byte;
}

/* Waits for the byte: there is nothing else to do meanwhile. */
int poet_board_getchar(void)
{
    static unsigned char input[4096];
    static ssize_t length;
    static ssize_t next;
    if (next == length) {
        next = 0;
        do {
            length = read(STDIN_FILENO, input, sizeof input);
        } while (length < 0 && errno == EINTR);
        if (length <= 0) {
            exit(0);
        }
    }
    return input[next++];
}

/* --- memory --- */

uint8_t *poet_board_ram(uint32_t *bytes)
{
    *bytes = ram_size;
    return ram;
}

uint32_t poet_board_stack_peak(void)
{
    return 0;
}

/* --- start --- */

void poet_board_start(poet_start *start)
{
    *start = (poet_start){0};
}

const bool poet_board_has_bootloader = false;

void poet_board_enter_bootloader(void)
{
}

/* --- sensors --- */

typedef struct sensor_kind {
    const char *pattern; /* of its files, below sysfs */
    const char *name;    /* the file beside each that says what it measures */
    const char *words[6];
} sensor_kind;

/* The processor's own zones and, where there are none, its driver's sensors: another zone may be a radio's, or one that
 * always shows the same. planner/poet_runtime/agent/system.py takes the same ones. */
static const sensor_kind sensor_kinds[] = {
    {"class/thermal/thermal_zone*/temp", "type", {"cpu", "soc", "pkg", "package", "core"}},
    {"class/hwmon/hwmon*/temp*_input", "name", {"coretemp", "k10temp", "zenpower"}},
    {"class/thermal/thermal_zone*/temp", "type", {""}},
};

static void read_text(const char *path, char *text, size_t size)
{
    const int file = open(path, O_RDONLY);
    const ssize_t length = file < 0 ? -1 : read(file, text, size - 1u);
    if (file >= 0) {
        close(file);
    }
    text[length > 0 ? length : 0] = '\0';
}

static bool read_number(const char *path, long *number)
{
    char text[32];
    char *end;
    read_text(path, text, sizeof text);
    *number = strtol(text, &end, 10);
    return end != text && end[*end == '\n'] == '\0';
}

static bool is_of_kind(const char *path, const sensor_kind *kind)
{
    char place[4096];
    char text[64];
    const int folder = (int)(strrchr(path, '/') - path);
    if (snprintf(place, sizeof place, "%.*s/%s", folder, path, kind->name) >= (int)sizeof place) {
        return false;
    }
    read_text(place, text, sizeof text);
    for (size_t i = 0; i < sizeof kind->words / sizeof *kind->words && kind->words[i] != NULL; i++) {
        if (strcasestr(text, kind->words[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* The hottest of a kind. One that cannot be read, or shows what no board survives or exactly 0, is off. */
static bool read_hottest(const sensor_kind *kind, long *hottest)
{
    char pattern[4096];
    glob_t found;
    if (snprintf(pattern, sizeof pattern, "%s/%s", sysfs, kind->pattern) >= (int)sizeof pattern ||
        glob(pattern, GLOB_NOSORT, NULL, &found) != 0) {
        return false;
    }
    bool any = false;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        long number;
        if (is_of_kind(found.gl_pathv[i], kind) && read_number(found.gl_pathv[i], &number) && number > COLDEST_MC &&
            number < HOTTEST_MC && number != 0 && (!any || number > *hottest)) {
            *hottest = number;
            any = true;
        }
    }
    globfree(&found);
    return any;
}

/* The clock of the core that this runs on, and the temperature. */
void poet_board_sensors(poet_sensors *sensors)
{
    char path[4096];
    long number;
    if (snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", sysfs, sched_getcpu()) <
            (int)sizeof path &&
        read_number(path, &number) && number > 0) {
        sensors->has_clock = true;
        sensors->cpu_khz = (uint32_t)number;
    }
    for (size_t i = 0; i < sizeof sensor_kinds / sizeof *sensor_kinds && !sensors->has_temperature; i++) {
        if (read_hottest(&sensor_kinds[i], &number)) {
            sensors->has_temperature = true;
            sensors->temperature_mc = (int32_t)number;
        }
    }
}

/* --- card --- */

static off_t position(uint32_t block)
{
    return (off_t)block * (off_t)POET_BLOCK_BYTES;
}

/* A page must leave RAM and come back from the disk, or paging would cost nothing: the kernel's copy is let go before a
 * read (whole pages of it: parts of one stay), and a write ends when the disk has the data. Only sync_card makes it
 * outlive a cut of power. */
static void let_go(off_t start, off_t bytes)
{
    const off_t page = (off_t)sysconf(_SC_PAGESIZE);
    const off_t from = start / page * page;
    (void)posix_fadvise(card, from, (start + bytes - from + page - 1) / page * page, POSIX_FADV_DONTNEED);
}

static int read_card(void *context, uint32_t block, void *data, uint32_t bytes)
{
    (void)context;
    let_go(position(block), (off_t)bytes);
    return pread(card, data, bytes, position(block)) == (ssize_t)bytes ? POET_OK : POET_E_IO;
}

static int write_card(void *context, uint32_t block, const void *data, uint32_t bytes)
{
    static const uint8_t zeros[POET_BLOCK_BYTES];
    const uint32_t padding = (POET_BLOCK_BYTES - bytes % POET_BLOCK_BYTES) % POET_BLOCK_BYTES;
    (void)context;
    if (pwrite(card, data, bytes, position(block)) != (ssize_t)bytes) {
        return POET_E_IO;
    }
    if (pwrite(card, zeros, padding, position(block) + (off_t)bytes) != (ssize_t)padding) {
        return POET_E_IO;
    }
    const unsigned out = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    return sync_file_range(card, position(block), (off_t)(bytes + padding), out) == 0 ? POET_OK : POET_E_IO;
}

static int sync_card(void *context)
{
    (void)context;
    return fsync(card) == 0 ? POET_OK : POET_E_IO;
}

int poet_board_storage(poet_block_device *device)
{
    if (card_path == NULL) {
        return POET_E_ABSENT;
    }
    if (card >= 0) {
        close(card);
    }
    card = open(card_path, O_RDWR | O_CREAT, 0666);
    struct stat status;
    if (card < 0 || fstat(card, &status) != 0) {
        return POET_E_ABSENT;
    }
    if (status.st_size == 0) {
        if (ftruncate(card, NEW_CARD_BYTES) != 0) {
            return POET_E_IO;
        }
        status.st_size = NEW_CARD_BYTES;
    }
    (void)posix_fadvise(card, 0, 0, POSIX_FADV_RANDOM); /* nothing is read ahead */
    *device = (poet_block_device){
        .block_count = (uint32_t)(status.st_size / (off_t)POET_BLOCK_BYTES),
        .read = read_card,
        .write = write_card,
        .sync = sync_card,
    };
    return POET_OK;
}
