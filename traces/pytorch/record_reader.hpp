// Reads dicts of one shape out of a plain document: a fixed list of known keys, unknown ones counted. Keys are
// looked up once per distinct string, not once per dict, because a snapshot has millions of equal dicts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/pytorch/plain_data.hpp"
#include "traces/pytorch/stat_list.hpp"

namespace foreshard::traces {

class RecordReader {
 public:
  /// A dict with more entries than this is none of a snapshot's; it bounds the work per dict.
  static constexpr std::size_t kMaxEntries = 256;

  /// `keys` must outlive the reader; fewer than 255.
  RecordReader(const PlainDocument& document, std::span<const std::string_view> keys)
      : document_(document), keys_(keys), values_(keys.size()), column_of_string_(document.string_count(), kUnseen) {}

  /// Takes a dict's values; false when `value` is no dict or has more than kMaxEntries entries.
  [[nodiscard]] bool read(PlainValue value);
  /// The value under keys[column] in the dict read last.
  [[nodiscard]] std::optional<PlainValue> at(std::size_t column) const { return values_[column]; }
  /// One stat that names the unknown keys met; `what` as in "trace entries".
  void report_unknown(StatList& stats, std::string_view name, std::string_view what) const;

 private:
  static constexpr std::uint8_t kUnseen = 255;
  static constexpr std::uint8_t kUnknown = 254;
  static constexpr std::size_t kNamedKeys = 8;  // enough to see what they are

  const PlainDocument& document_;
  std::span<const std::string_view> keys_;
  std::vector<std::optional<PlainValue>> values_;
  std::vector<std::uint8_t> column_of_string_;
  std::vector<std::string> unknown_;  // the first few, in order of appearance
  std::uint64_t unknown_count_ = 0;
};

}  // namespace foreshard::traces
