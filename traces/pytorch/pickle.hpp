// A closed pickle reader: the opcodes that plain data needs, and no other (PyTorch's memory snapshots;
// protocols 2 to 5 as CPython and PyTorch's C++ pickler write them, docs/formats.md).
//
// Nothing is ever imported, called or built: GLOBAL, REDUCE, BUILD, persistent ids and the like are refused
// by name with their byte. Any bytes give a document or an Error, never a crash. The input is read as it is needed: a
// packed file that unpacks to something else is refused at its first byte. Memory is bounded by a limit and by a small
// multiple of what was read, time is linear in it.
#pragma once

#include <cstdint>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "traces/pytorch/plain_data.hpp"
#include "traces/pytorch/source_window.hpp"

namespace foreshard::traces {

struct PickleLimits {
  Bytes value_bytes = 64 * kGiB;    ///< memory of the values
  Bytes string_bytes = 64 * kMiB;   ///< of one string; those of snapshots are names of functions and files
  std::uint32_t open_marks = 1000;  ///< containers being filled at once; a snapshot needs about 10
};

struct Pickle {
  PlainDocument document;
  int protocol = 0;          ///< 0 where none is declared
  Bytes trailing_bytes = 0;  ///< after STOP, zero bytes (base64 padding) not counted
};

/// Reads one pickle, and what follows it to the end of the source.
[[nodiscard]] Result<Pickle> read_pickle(SourceWindow& source, const PickleLimits& limits = {});

}  // namespace foreshard::traces
