#!/usr/bin/env bash
# hardening_test.sh PROGRAM OBJECT: what cmake/hardening.cmake promises, read from the built program's headers: PIE, a
# stack that is not executable, RELRO with BIND_NOW, stack protector, _FORTIFY_SOURCE, the standard library's assertions;
# and from one of its objects CET's mark, which the linker drops where a library of the distribution lacks it.
set -u
command -v readelf >/dev/null || { echo "skipped: readelf (binutils) is missing"; exit 77; }
[ "$(uname -s)" = Linux ] || { echo "skipped: the program is no ELF file"; exit 77; }
program=$1 object=$2 failed=0

check() {  # WHAT PATTERN TEXT
  grep -Eq "$2" <<<"$3" && return
  echo "$1: no '$2' in what readelf prints of it"
  failed=1
}
header=$(readelf -hW "$program") segments=$(readelf -lW "$program") dynamic=$(readelf -dW "$program")
symbols=$(readelf -sW "$program")
check "position-independent" 'Type: +DYN' "$header"
check "RELRO" 'GNU_RELRO' "$segments"
check "stack" 'GNU_STACK .* RW +0x' "$segments"
check "BIND_NOW" 'BIND_NOW|Flags:.*NOW' "$dynamic"
check "stack protector" '__stack_chk_fail' "$symbols"
check "_FORTIFY_SOURCE" '__(memcpy|snprintf|sprintf|fprintf|vsnprintf|memset|read|longjmp|fdelt)_chk' "$symbols"
check "the standard library's assertions" '__glibcxx_assert_fail' "$symbols"
if [ "$(uname -m)" = x86_64 ]; then check "CET" 'IBT, SHSTK' "$(readelf -nW "$object")"; fi
[ $failed = 0 ] && echo "hardened: $program"
exit $failed
