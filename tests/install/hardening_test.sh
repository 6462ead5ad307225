#!/usr/bin/env bash
# hardening_test.sh PROGRAM OBJECT...: what cmake/hardening.cmake promises, read from the built program's headers: PIE, a
# stack that is not executable, RELRO with BIND_NOW; and from some of its objects, for libraries of the distribution have
# marks of their own: stack protector, _FORTIFY_SOURCE, the standard library's assertions, CET's mark. And what
# cmake/install.cmake promises: no library is taken from the folder that the program is started in.
set -u
command -v readelf >/dev/null || { echo "skipped: readelf (binutils) is missing"; exit 77; }
[ "$(uname -s)" = Linux ] || { echo "skipped: the program is no ELF file"; exit 77; }
program=$1 failed=0
shift

check() {  # WHAT PATTERN TEXT
  grep -Eq "$2" <<<"$3" && return
  echo "$1: no '$2' in what readelf prints of it"
  failed=1
}
header=$(readelf -hW "$program") segments=$(readelf -lW "$program") dynamic=$(readelf -dW "$program")
symbols=$(readelf -sW "$@")
paths=$(sed -nE 's/.*(RUNPATH|RPATH).*\[(.*)\]/\2/p' <<<"$dynamic")
check "position-independent" 'Type: +DYN' "$header"
check "RELRO" 'GNU_RELRO' "$segments"
check "stack" 'GNU_STACK .* RW +0' "$segments"
check "BIND_NOW" 'BIND_NOW|Flags:.*NOW' "$dynamic"
check "stack protector" '__stack_chk_fail' "$symbols"
check "_FORTIFY_SOURCE" '__(memcpy|snprintf|sprintf|fprintf|vsnprintf|memset|read|longjmp|fdelt)_chk' "$symbols"
check "the standard library's assertions" '__glibcxx_assert_fail' "$symbols"
if [ -n "$paths" ] && grep -Evq '^(/|\$ORIGIN/)' <<<"${paths//:/$'\n'}"; then
  echo "RUNPATH '$paths': an entry that is empty or relative is the folder that the program is started in"
  failed=1
fi
if [ "$(uname -m)" = x86_64 ]; then check "CET" 'IBT, SHSTK' "$(readelf -nW "$1")"; fi
[ $failed = 0 ] && echo "hardened: $program"
exit $failed
