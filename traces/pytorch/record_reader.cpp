#include "traces/pytorch/record_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace foreshard::traces {

bool RecordReader::read(PlainValue value) {
  std::fill(values_.begin(), values_.end(), std::nullopt);
  const std::span<const PlainValue> entries = document_.entries(value);
  if (value.kind() != PlainKind::dict || entries.size() > 2 * kMaxEntries) return false;
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
    std::uint8_t column = kUnknown;
    if (entries[i].kind() == PlainKind::string) {
      std::uint8_t& known = column_of_string_[entries[i].index()];
      if (known == kUnseen) {
        const std::string_view key = *document_.string(entries[i]);
        const auto it = std::find(keys_.begin(), keys_.end(), key);
        known = it == keys_.end() ? kUnknown : static_cast<std::uint8_t>(it - keys_.begin());
        if (known == kUnknown && unknown_.size() < kNamedKeys &&
            std::find(unknown_.begin(), unknown_.end(), key) == unknown_.end())
          unknown_.emplace_back(key.substr(0, 40));
      }
      column = known;
    }
    if (column == kUnknown)
      ++unknown_count_;
    else
      values_[column] = entries[i + 1];
  }
  return true;
}

void RecordReader::report_unknown(StatList& stats, std::string_view name, std::string_view what) const {
  if (unknown_count_ == 0) return;
  stats.add(name, ImportStat::Severity::info,
            fmt::format("{} have keys that this version does not know: {}", what, fmt::join(unknown_, ", ")),
            unknown_count_);
}

}  // namespace foreshard::traces
