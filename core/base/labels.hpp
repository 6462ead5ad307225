// A table of interned strings: ops carry a 4-byte LabelId instead of a name.
// Ids are given in order of first use, so equal inputs give equal tables.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/quantity.hpp"

namespace foreshard {

class Labels {
 public:
  /// The id of `text`, made on first use.
  LabelId intern(std::string_view text) {
    if (auto it = ids_.find(std::string(text)); it != ids_.end()) return it->second;
    LabelId id{static_cast<std::uint32_t>(texts_.size())};
    texts_.emplace_back(text);
    ids_.emplace(texts_.back(), id);
    return id;
  }
  /// The id of `text`; invalid where nothing has it.
  [[nodiscard]] LabelId find(std::string_view text) const {
    const auto it = ids_.find(std::string(text));
    return it != ids_.end() ? it->second : LabelId{};
  }
  /// The text of an id; empty for an invalid one.
  [[nodiscard]] const std::string& text(LabelId id) const {
    static const std::string kEmpty;
    return id.value < texts_.size() ? texts_[id.value] : kEmpty;
  }
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, LabelId> ids_;  // lookup only, never iterated
};

}  // namespace foreshard
