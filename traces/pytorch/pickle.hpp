// A closed pickle reader: the opcodes that plain data needs, and no other (PyTorch's memory snapshots;
// protocols 2 to 5 as CPython and PyTorch's C++ pickler write them, docs/formats.md).
//
// Nothing is ever imported, called or built: GLOBAL, REDUCE, BUILD, persistent ids and the like are refused
// by name with their byte. Any bytes give a document or an Error, never a crash; memory is bounded by a limit
// and by a small multiple of the input, time is linear in the input.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "traces/pytorch/plain_data.hpp"

namespace foreshard::traces {

struct PickleLimits {
  Bytes value_bytes = 64 * kGiB;    ///< memory of the values, the input not counted
  std::uint32_t open_marks = 1000;  ///< containers being filled at once; a snapshot needs about 10
};

struct Pickle {
  PlainDocument document;
  int protocol = 0;          ///< 0 where none is declared
  Bytes trailing_bytes = 0;  ///< after STOP, zero bytes (base64 padding) not counted
};

/// Reads one pickle. `name` stands for the file in messages.
[[nodiscard]] Result<Pickle> read_pickle(std::string bytes, const std::string& name, const PickleLimits& limits = {});

}  // namespace foreshard::traces
