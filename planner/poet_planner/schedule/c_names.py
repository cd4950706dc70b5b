# SPDX-License-Identifier: Apache-2.0
"""What a network cannot be called, since its name stands in C and C++ and names a header (docs/SPEC.md, section 5)."""

from __future__ import annotations

import re

# Of C up to C23 and of C++20.
_KEYWORDS = """
 alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const const_cast
 consteval constexpr constinit continue co_await co_return co_yield decltype default delete do double dynamic_cast
 else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not
 not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict return short
 signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid
 typename typeof typeof_unqual union unsigned using virtual void volatile while xor xor_eq"""
# What headers of C declare or define, in glibc and newlib; some with an ending, as in cosf and strtol_l.
_LIBRARY = """
 a64l abort abs accept access acct acos acosh alarm aligned_alloc alloca arc4random arc4random_buf arc4random_uniform
 asctime asin asinh assert at_quick_exit atan atan2 atanh atexit atof atoi atol basename bcmp bcopy be16toh be32toh
 be64toh bind brk bsearch btowc bzero c16rtomb c32rtomb c8rtomb cabs cacos cacosh call_once calloc canonicalize
 canonicalize_file_name carg casin casinh catan catanh cbrt ccos ccosh ceil cexp cfree chdir chmod chown chroot cimag
 clearenv clearerr clock clock_adjtime clock_getcpuclockid clock_getres clock_gettime clock_nanosleep clock_settime
 clog close close_range closefrom complex confstr conj connect copy_file_range copysign cos cosh cpow cproj creal
 creat crypt csin csinh csqrt ctan ctanh ctermid ctime cuserid dadd daemon daylight ddiv dfma difftime div dmul
 drand48 drem dsqrt dsub dup dup2 dup3 duplocale dysize eaccess ecvt endusershell environ erand48 erf erfc errno
 euidaccess exec execle execlp execlpe execv execve execveat execvp execvpe exit exp exp10 exp2 explicit_bzero expm1
 fabs faccessat fadd fchdir fchmod fchown fchownat fclose fcloseall fcntl fcvt fd_mask fd_set fdatasync fdim fdiv
 fdopen feof ferror fexecve fflush ffma ffs ffsll fgetc fgetpos fgets fgetwc fgetws fileno finite flockfile floor fls
 flsll fma fmax fmaximum fmaximum_mag fmaximum_mag_num fmaximum_num fmaxmag fmemopen fmin fminimum fminimum_mag
 fminimum_mag_num fminimum_num fminmag fmod fmul fopen fopencookie fork fpathconf fpclassify fpurge fputc fputs fputwc
 fputws fread free free_aligned_sized free_sized freelocale freopen frexp fromfp fromfpx fseek fseeko fsetpos fsqrt
 fsub fsync ftell ftello ftruncate ftrylockfile funlockfile funopen fwide fwrite gamma gcvt get_current_dir_name getc
 getchar getcwd getdate getdate_err getdelim getdomainname getdtablesize getegid getentropy getenv geteuid getgid
 getgroups gethostid gethostname getline getloadavg getlogin getopt getpagesize getpass getpayload getpeereid getpgid
 getpgrp getpid getppid getpt getresgid getresuid gets getsid getsubopt gettid getuid getusershell getw getwc getwchar
 getwd gmtime grantpt group_member gsignal htobe16 htobe32 htobe64 htole16 htole32 htole64 hypot i386 ilogb imaxabs
 imaxdiv index infinity initstate ioctl iruserok isascii isatty iscanonical isctype iseqsig isfinite isgreater
 isgreaterequal isinf isless islessequal islessgreater isnan isnormal issetugid issignaling issubnormal isunordered
 iswctype iszero itimerspec itoa j0 j1 jmp_buf jn jrand48 kill kill_dependency killpg l64a labs lchown lcong48 lconv
 ldexp ldiv le16toh le32toh le64toh lerp lgamma link linkat linux listen llabs lldiv llogb llrint llround localeconv
 localtime lockf log log10 log1p log2 logb longjmp lrand48 lrint lround lseek main mallinfo mallinfo2 malloc mallopt
 math_errhandling mblen mbrlen mbrtoc16 mbrtoc32 mbrtoc8 mbrtowc mbsinit mbsnrtowcs mbsrtowcs mbstowcs mbtowc memalign
 memalignment memccpy memchr memcmp memcpy memfrob memmem memmove memory_order mempcpy memrchr memset memset_explicit
 mkdir mkdtemp mkostemp mkostemps mkstemp mkstemps mktemp mktime mmap modf mount mprotect mrand48 munmap nan nanosleep
 nearbyint newlocale nextafter nextdown nexttoward nextup nice noreturn nrand48 obstack_printf obstack_vprintf
 offsetof on_exit once_flag open open_memstream open_wmemstream optarg opterr optind optopt optreset pathconf pause
 pclose perror pipe pipe2 poll popen pow pread profil program_invocation_name program_invocation_short_name pselect
 psiginfo psignal ptsname putc putchar putenv puts putw putwc putwchar pvalloc pwrite qecvt qfcvt qgcvt qsort
 quick_exit raise rand random rawmemchr read readlink readlinkat realloc reallocarray realpath recv remainder remove
 remquo rename renameat renameat2 revoke rewind rindex rint rmdir round roundeven rpmatch rresvport ruserok sa_handler
 sa_sigaction sbrk scalb scalbln scalbn secure_getenv seed48 select send setbuf setbuffer setdomainname setdtablesize
 setegid setenv seteuid setgid setgroups sethostid sethostname setjmp setlinebuf setlocale setlogin setpayload
 setpayloadsig setpgid setpgrp setregid setresgid setresuid setreuid setsid setstate setuid setusershell setvbuf
 shutdown si_addr si_addr_lsb si_arch si_band si_call_addr si_fd si_int si_lower si_overrun si_pid si_pkey si_ptr
 si_status si_stime si_syscall si_timerid si_uid si_upper si_utime si_value sigaction sigaddset sigaltstack sigandset
 sigblock sigcontext sigdelset sigemptyset sigevent sigfillset siggetmask sighold sigignore siginterrupt sigisemptyset
 sigismember sigjmp_buf siglongjmp sigmask signal signbit signgam significand sigorset sigpause sigpending sigprocmask
 sigqueue sigrelse sigreturn sigset sigsetjmp sigsetmask sigstack sigsuspend sigtimedwait sigval sigwait sigwaitinfo
 sin sincos sinh sleep socket sqrt srand srand48 srandom ssignal stat std stderr stdin stdout stpcpy stpncpy
 strcasecmp strcasestr strcat strchr strchrnul strcmp strcoll strcpy strcspn strdup strerror strfromd strfromf
 strfromf128 strfromf32 strfromf32x strfromf64x strfroml strfry strftime strlcat strlcpy strlen strlwr strncasecmp
 strncat strncmp strncpy strndup strnlen strnstr strpbrk strptime strrchr strsep strsignal strspn strstr strtod strtof
 strtof128 strtof32 strtof32x strtof64x strtoimax strtok strtol strtold strtoq strtoul strtoumax strtouq strupr
 strverscmp strxfrm suboptarg swab symlink symlinkat sync syncfs syscall sysconf system sysv_signal tan tanh tcgetpgrp
 tcsetpgrp tempnam tgamma tgkill time timegm timelocal timer_create timer_delete timer_getoverrun timer_gettime
 timer_settime times timespec timespec_get timespec_getres timeval timezone timingsafe_bcmp timingsafe_memcmp tm
 tmpfile tmpnam toascii tolower totalorder totalordermag toupper towctrans towlower towupper trunc truncate ttyname
 ttyslot tzname tzset u_char u_int u_long u_short ualarm ufromfp ufromfpx uint ulong umask uname ungetc ungetwc unix
 unlink unlinkat unlockpt unreachable unsetenv uselocale ushort usleep utime utoa va_arg va_copy va_end va_list
 va_start valloc vfork vhangup wait wcpcpy wcpncpy wcrtomb wctob wctomb wctrans wctype wcwidth write y0 y1 yn"""
_ENDINGS = r"(f|l|f\d+x?|64)?(_[lr])?"
_ENDINGS = r"(f|l|f\d+x?|64)?(_[lr])?"
_ENDINGS = r"(f|l|f\d+x?|64)?(_[lr])?"
# Headers, or macros and functions, of C, POSIX and Arduino's cores; files that Windows cannot make.
_HEADERS = """
 assert complex ctype errno fenv inttypes iso646 limits locale math stdalign stdarg stdatomic stdbit stdbool stdckdint
 stddef stdint stdio stdlib stdnoreturn string strings tgmath threads uchar unistd wchar fcntl memory malloc sched
 pthread dirent features
 arduino bit boolean byte client constrain degrees delay loop map max micros millis min print printable radians sd
 server setup spi sq stream tone udp wire word wprogram wstring yield
 aux con nul prn"""
_FAMILIES = (
    r"atomic_\w+|wcs\w+|wmem\w+|fe\w+(except|env|round|mode|exceptflag)|\w+_(t|np|unlocked)|(com|lpt)\d"
    r"|v?(f|s|sn|w|fw|sw|as|asn|d)?[io]?(printf|scanf)|f\d+x?(add|div|fma|mul|sqrt|sub)f\d+x?"
    r"|isw?(alnum|alpha|blank|cntrl|digit|graph|lower|print|punct|space|upper|xdigit)(_l)?"
    r"|(cnd|memory_order|mtx|posix|pthread|sigev|thrd|tss)_\w+"
)
_TAKEN = re.compile(f"({'|'.join(_LIBRARY.split())}){_ENDINGS}|{'|'.join(_HEADERS.split())}|{_FAMILIES}")
# What a network `net` names by itself, in lower case: net_tensor_..., net_classes and so on.
_OWN = re.compile(r"(.+?)_(tensor(_.*)?|classes|initial|constant_words)")


def why_no_name(name: str) -> str | None:
    """What speaks against a name for a network, or None.

    Two names without any such reason give no macro, no file, and no identifier in a header or for the linker twice.
    They are in lower case: what C has in capitals are macros, and some file systems do not tell ``Net.h`` from
    ``net.h``.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or name in _KEYWORDS.split():
        return "not a name in C and C++; use lower-case letters, digits and single _, like watch_net"
    if name.startswith("poet"):
        return "names that begin with poet are poet's own; choose another"
    if _TAKEN.fullmatch(name):
        return "the name of something in C or its libraries; choose another, like watch_net"
    own = _OWN.fullmatch(name)
    return f"a network {own[1]} calls a part of its own so; choose another" if own else None
