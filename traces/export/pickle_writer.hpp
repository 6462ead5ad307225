// Writes plain data as a pickle of protocol 4, with the opcodes that PyTorch's viewer knows
// (torch/utils/viz/MemoryViz.js, unpickle) and no other. Used by snapshot_pickle.hpp.
//
// Lists are filled in batches of 1,000, as CPython does (Lib/pickle.py, _BATCHSIZE): the viewer spreads a batch into
// one JavaScript call, which 130,000 items overflow. Strings are written once and then fetched from the memo.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "traces/export/byte_sink.hpp"

namespace foreshard::traces {

class PickleWriter {
 public:
  explicit PickleWriter(ByteSink& sink);

  /// What is no UTF-8 in it is replaced.
  void text(std::string_view recorded);
  void integer(std::int64_t value);
  void count(std::uint64_t value);  ///< beyond 2^63 too
  void real(double value);
  void boolean(bool value) { op(value ? 0x88 : 0x89); }

  /// `{` key value … `}`. A dict's items are SETITEMS in one batch: keep dicts small.
  void begin_dict();
  void key(std::string_view name) { text(name); }
  void end_dict() { op('u'); }

  void begin_list();
  /// Before every item.
  void item();
  void end_list();
  void tuple2() { op(0x86); }  ///< of the last two values

  /// Remembers the last value; fetch() puts it there again, shared.
  [[nodiscard]] std::uint32_t remember();
  void fetch(std::uint32_t memo);

  void end();

 private:
  void op(int code) {
    buffer_.push_back(static_cast<char>(code));
    flush();
  }
  void little_endian(std::uint64_t value, int bytes);
  void flush();

  ByteSink& sink_;
  std::string buffer_;
  std::map<std::string, std::uint32_t, std::less<>> texts_;
  std::uint32_t memos_ = 0;
  std::vector<std::uint32_t> in_batch_;  ///< items of the open lists' open batches
};

}  // namespace foreshard::traces
