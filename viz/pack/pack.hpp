// A run as data for the page: cut into named pieces, each at several levels of detail, so that a viewer decodes
// only what a window shows.
//
// Who: viz/pack/page.hpp embeds all pieces in one file; a local server hands them out one by one. Thread safety:
// piece() is const and may be called from several threads. Determinism: the same run and options give the same bytes.
//
// A pack keeps an index (where tiles begin) and makes a piece when it is asked for, so it costs little more memory
// than the run. docs/view.md names the pieces and their columns.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "viz/scene/block_groups.hpp"

namespace foreshard::viz {

struct PackOptions {
  std::optional<std::int32_t> step = {};  ///< at which the page opens; none: the last one
  bool all = false;                       ///< the page opens with everything in view
  std::optional<Nanoseconds> from = {};   ///< the page opens with this window, from the step's begin
  std::optional<Nanoseconds> to = {};
  std::optional<GroupBy> by = {};  ///< what the page's memory is stacked by at first; none: by category
};

class Pack {
 public:
  /// `run` must outlive the pack. Errors: those of choose_window() (viz/scene/window.hpp) and of check_groups().
  [[nodiscard]] static Result<Pack> make(const Run& run, const PackOptions& options);
  Pack(Pack&&) noexcept;
  Pack& operator=(Pack&&) noexcept;
  ~Pack();

  /// Every piece's name, "meta" first; letters, digits and "/" only.
  [[nodiscard]] const std::vector<std::string>& names() const;
  /// The piece, one zlib stream; none where no piece has that name.
  [[nodiscard]] std::optional<std::string> piece(std::string_view name) const;

 private:
  struct Parts;
  explicit Pack(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace foreshard::viz
