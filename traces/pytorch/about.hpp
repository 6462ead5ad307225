// The about file beside a recording: how the run was set up, in foreshard's own words, with its FSDP units and what
// the capturing process measured unprofiled. Written by the recorder; `import --about` reads it (docs/formats.md).
//
// Thread safety: free functions. Deterministic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/settings/settings.hpp"
#include "core/workload/unit.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::traces {

/// What a file must say: everything that an import without a recording's own account needs, or as much as it likes.
enum class AboutParts : bool { whole, some };

struct About {
  std::string torch;               ///< "2.11.0+cu130"
  std::string nccl;                ///< empty: not said
  std::string gpu;                 ///< empty: not said
  std::uint32_t sm_count = 0;      ///< 0: not said
  Settings settings;               ///< gpus, nodes, replicate, batch, seq and pytorch included
  std::vector<std::string> given;  ///< keys of settings that the file has, in its order; "pytorch" for torch
  std::vector<Unit> units;         ///< the root first; empty where the file has none
  /// Names of each of the optimizer's param_groups' parameters, in its order; empty: it has one, or it is not said.
  std::vector<std::vector<std::string>> optimizer_param_groups;
  bool requires_grad_known = false;  ///< a parameter says whether it is trained; those without the key are
  std::optional<Measured> measured;  ///< none where it is absent or was taken under a profiler
  std::string model_config;          ///< the object's JSON text as given; empty: none
  std::vector<std::string> warnings;
};

/// Fails with ErrorKind::input for broken JSON (line and column) and for values of the wrong type or out of range
/// (JSON path), with ErrorKind::usage for unknown keys and words (nearest known one), and with ErrorKind::mismatch
/// for settings and units that do not go together; of a file of some parts only values by themselves are checked.
[[nodiscard]] Result<About> read_about(const std::string& path, AboutParts parts = AboutParts::whole);
/// The same from text; `name` stands for the file in messages.
[[nodiscard]] Result<About> parse_about(const std::string& text, const std::string& name,
                                        AboutParts parts = AboutParts::whole);
/// Whether the file has that key of a setting.
[[nodiscard]] bool gives(const About& about, std::string_view key);
/// Whether that setting stands at the file's top level and not among its "settings".
[[nodiscard]] bool is_top_level(std::string_view key);
/// Fails as a whole file of that name would: where a key is missing, or settings do not go together.
[[nodiscard]] Result<void> check_whole(const About& about, const std::string& name);

/// The file's text, which parse_about() reads again. Without `measured`, whose times a recording has only as a profiler
/// slows them, and without `model_config`.
[[nodiscard]] std::string about_json(const About& about);

}  // namespace foreshard::traces
