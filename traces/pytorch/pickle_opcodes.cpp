#include "traces/pytorch/pickle_opcodes.hpp"

#include <array>

namespace foreshard::traces {

namespace {

struct Row {
  std::uint8_t byte;
  RefusedOpcode opcode;
};

constexpr std::array kRefused{
    Row{'c', {"GLOBAL", RefusedOp::object}},
    Row{'R', {"REDUCE", RefusedOp::object}},
    Row{'b', {"BUILD", RefusedOp::object}},
    Row{'i', {"INST", RefusedOp::object}},
    Row{'o', {"OBJ", RefusedOp::object}},
    Row{'P', {"PERSID", RefusedOp::object}},
    Row{'Q', {"BINPERSID", RefusedOp::object}},
    Row{0x81, {"NEWOBJ", RefusedOp::object}},
    Row{0x82, {"EXT1", RefusedOp::object}},
    Row{0x83, {"EXT2", RefusedOp::object}},
    Row{0x84, {"EXT4", RefusedOp::object}},
    Row{0x92, {"NEWOBJ_EX", RefusedOp::object}},
    Row{0x93, {"STACK_GLOBAL", RefusedOp::object}},
    Row{0x97, {"NEXT_BUFFER", RefusedOp::object}},
    Row{0x98, {"READONLY_BUFFER", RefusedOp::object}},
    Row{'F', {"FLOAT", RefusedOp::text}},
    Row{'I', {"INT", RefusedOp::text}},
    Row{'L', {"LONG", RefusedOp::text}},
    Row{'S', {"STRING", RefusedOp::text}},
    Row{'T', {"BINSTRING", RefusedOp::text}},
    Row{'U', {"SHORT_BINSTRING", RefusedOp::text}},
    Row{'V', {"UNICODE", RefusedOp::text}},
    Row{'p', {"PUT", RefusedOp::text}},
    Row{'g', {"GET", RefusedOp::text}},
    Row{'1', {"POP_MARK", RefusedOp::other}},
    Row{'2', {"DUP", RefusedOp::other}},
    Row{0x8f, {"EMPTY_SET", RefusedOp::other}},
    Row{0x90, {"ADDITEMS", RefusedOp::other}},
    Row{0x91, {"FROZENSET", RefusedOp::other}},
    Row{0x96, {"BYTEARRAY8", RefusedOp::other}},
};

}  // namespace

RefusedOpcode refused_opcode(std::uint8_t byte) {
  for (const Row& row : kRefused)
    if (row.byte == byte) return row.opcode;
  return {};
}

}  // namespace foreshard::traces
