#include "cli/reports/as_it_is.hpp"

#include <nlohmann/json.hpp>
#include <optional>

#include "core/run/rank_shapes.hpp"
#include "core/straggler/straggler_text.hpp"

namespace foreshard::cli {

namespace {

/// Of a recording that another rank held up: that rank, which its plans have as fast as the one that they repeat.
std::optional<int> keeps_up(const Run& run) {
  if (run.info.kind != RunKind::imported || !run.measured || run.measured->late_rank < 0) return std::nullopt;
  return run.measured->late_rank;
}

}  // namespace

std::string as_it_is(const Run& run) {
  const std::optional<int> rank = keeps_up(run);
  return rank ? keeps_up_words(static_cast<std::uint32_t>(*rank),
                               late_with_more(run.measured, rank_shapes(run), run.settings))
              : "as it is";
}

std::string capitalised(std::string words) {
  if (!words.empty() && words.front() >= 'a' && words.front() <= 'z')
    words.front() = static_cast<char>(words.front() - 'a' + 'A');
  return words;
}

Json keeps_up_json(const Run& run) {
  const std::optional<int> rank = keeps_up(run);
  return rank ? Json(*rank) : Json(nullptr);
}

}  // namespace foreshard::cli
