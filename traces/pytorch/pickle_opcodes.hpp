// Names of all pickle opcodes, for messages (CPython 3.14, Lib/pickletools.py).
#pragma once

#include <cstdint>
#include <string_view>

namespace foreshard::traces {

/// Those that plain data needs. Values are the pickle format's.
enum class PickleOp : std::uint8_t {
  mark = 0x28,
  empty_tuple = 0x29,
  stop = 0x2e,
  pop = 0x30,
  binbytes = 0x42,
  short_binbytes = 0x43,
  binfloat = 0x47,
  binint = 0x4a,
  binint1 = 0x4b,
  binint2 = 0x4d,
  none = 0x4e,
  binunicode = 0x58,
  empty_list = 0x5d,
  append = 0x61,
  dict = 0x64,
  appends = 0x65,
  binget = 0x68,
  long_binget = 0x6a,
  list = 0x6c,
  binput = 0x71,
  long_binput = 0x72,
  setitem = 0x73,
  tuple = 0x74,
  setitems = 0x75,
  empty_dict = 0x7d,
  proto = 0x80,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8a,
  long4 = 0x8b,
  short_binunicode = 0x8c,
  binunicode8 = 0x8d,
  binbytes8 = 0x8e,
  memoize = 0x94,
  frame = 0x95,
};

/// What an opcode that is not in PickleOp would do.
enum class RefusedOp : std::uint8_t {
  unknown = 0,  ///< no opcode of any protocol
  object = 1,   ///< imports, calls or builds something
  text = 2,     ///< protocol 0 and 1's text forms
  other = 3,    ///< harmless, but never part of a snapshot
};

struct RefusedOpcode {
  std::string_view name;  ///< empty for `unknown`
  RefusedOp kind = RefusedOp::unknown;
};

[[nodiscard]] RefusedOpcode refused_opcode(std::uint8_t byte);

}  // namespace foreshard::traces
