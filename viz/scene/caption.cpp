#include "viz/scene/caption.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <set>

#include "core/base/units.hpp"
#include "core/run/plan_results.hpp"
#include "core/run/run_names.hpp"
#include "core/settings/settings_table.hpp"
#include "viz/scene/svg_writer.hpp"

namespace foreshard::viz {
namespace {

constexpr std::size_t kSettingLetters = 60;

std::string unquoted(const std::string& json) {
  return json.size() >= 2 && json.front() == '"' && json.back() == '"' ? json.substr(1, json.size() - 2) : json;
}

std::vector<std::string> changed_settings(const Settings& settings) {
  const auto have = setting_options(settings);
  const auto defaults = setting_options(Settings{});
  std::vector<std::string> out;
  for (std::size_t i = 0; i < have.size(); ++i) {
    if (have[i].second == defaults[i].second) continue;
    std::string key = have[i].first;
    for (char& c : key)
      if (c == '_') c = '-';
    out.push_back(shortened(fmt::format("{} {}", key, unquoted(have[i].second)), kSettingLetters));
  }
  return out;
}

/// `settings` of one size, where that is known; of several without batch and length.
Settings of_sizes(Settings settings, const std::vector<StepShape>& sizes) {
  const bool one = sizes.size() == 1 && sizes.front().known();
  const bool has_length = settings.seq.has_value() || (one && sizes.front().seq > 1);
  settings.batch.reset();
  settings.seq.reset();
  if (one) settings.batch = sizes.front().batch;
  if (one && has_length) settings.seq = sizes.front().seq;
  return settings;
}

/// "4 × 2048 and 4 × 1536 tokens a GPU": of several sizes; empty: the settings say it.
std::string sizes_piece(const std::vector<StepShape>& sizes) {
  const bool known = std::all_of(sizes.begin(), sizes.end(), [](const StepShape& size) { return size.known(); });
  if (!known) return sizes.size() == 1 ? "of " + shape_words(sizes.front()) : "of several sizes";
  return sizes.size() < 2 ? std::string() : "of " + shape_words(sizes);
}

/// A number of run.results in ms; empty where it is missing or null.
std::string result_ms(const Run& run, const char* key, const char* title) {
  const auto found = run.results.find(key);
  if (found == run.results.end()) return {};
  char* end = nullptr;
  const double value = std::strtod(found->second.c_str(), &end);
  if (end == found->second.c_str()) return {};
  return fmt::format("{} {:.2f} ms", title, value);
}

/// What was given back to the driver, what could not be had, and what is too thin to be seen.
void memory_facts(const MemorySeries& memory, double least_gib, bool counts_events, std::vector<std::string>& out) {
  out.push_back(fmt::format("peaks: requested {}, allocated {}, active {}, reserved {}", gib(memory.requested.bytes),
                            gib(memory.allocated.bytes), gib(memory.active.bytes), gib(memory.reserved.bytes)));
  std::uint64_t times = 0;
  Bytes released = 0;
  for (const MemoryMark& mark : memory.marks) {
    if (mark.kind == MemoryMark::Kind::out_of_memory) {
      out.push_back(fmt::format("out of memory at {}: {} could not be had", moment_words(mark.time, 2, counts_events),
                                gib(static_cast<std::int64_t>(mark.bytes))));
      continue;
    }
    ++times;
    released += mark.bytes;
  }
  if (times > 0)
    out.push_back(fmt::format("red dotted: segments given back to the driver, {} in {} place{}",
                              gib(static_cast<std::int64_t>(released)), times, times == 1 ? "" : "s"));
  std::string thin;
  for (const StackPart& part : memory.parts) {
    const std::int64_t most = memory.most(part.at);
    if (most > 0 && static_cast<double>(most) < least_gib * static_cast<double>(kGiB))
      thin += fmt::format("{}{} {}", thin.empty() ? "" : ", ", part.title, format_bytes(static_cast<Bytes>(most)));
  }
  if (!thin.empty()) out.push_back("too thin to be seen: " + thin);
}

}  // namespace

std::string gib(std::int64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / static_cast<double>(kGiB));
}

std::string headline(const Run& run) {
  return fmt::format("{} ({})", run.info.name.empty() ? "run" : run.info.name, name(run.info.kind));
}

std::string not_valid(const Run& run) {
  if (run.info.valid) return {};
  const std::vector<std::string> why = result_texts(run, "not_valid");
  if (why.empty()) return "not valid: outside what the model was calibrated on";
  return fmt::format("not valid: {}{}", why.front(),
                     why.size() > 1 ? fmt::format(" (and {} more)", why.size() - 1) : std::string());
}

std::vector<StepShape> shown_sizes(const Run& run, const Window& window) {
  const StepShapes shapes(run);
  std::set<StepShape> sizes;
  for (const std::optional<Side>& side : {window.memory, window.lanes}) {
    if (!side) continue;
    for (const ShownStep& step : side->steps)
      if (step.start >= side->first && step.start < side->last) sizes.insert(shapes.of(side->recording, step.index));
  }
  if (sizes.empty()) sizes.insert(shapes.of(Recording::run, -1));
  return {sizes.begin(), sizes.end()};
}

std::vector<std::string> subtitle(const Run& run, const Window& window) {
  return subtitle(run, window, shown_sizes(run, window));
}

std::vector<std::string> subtitle(const Run& run, const Window& window, const std::vector<StepShape>& sizes) {
  std::vector<std::string> out;
  if (const std::vector<std::string> end = plan_end(run); !end.empty()) out.push_back(end.front());
  if (std::string why = not_valid(run); !why.empty()) out.push_back(std::move(why));
  out.push_back(window.step);
  const bool unsaid = !run.settings.batch && !StepShapes(run).differ();  // the settings say no size either
  if (std::string piece = sizes_piece(sizes); !piece.empty() && !unsaid) out.push_back(std::move(piece));
  const std::string gpu = run.info.gpu.empty() ? run.info.machine : run.info.gpu;
  const std::string where = run.settings.nodes > 1 ? fmt::format("{} nodes × {}", run.settings.nodes, run.settings.gpus)
                                                   : std::to_string(run.settings.gpus);
  out.push_back(fmt::format("{} × {}", where, gpu.empty() ? "GPU" : gpu));
  if (!run.info.machine.empty() && run.info.machine != gpu) out.push_back("machine profile " + run.info.machine);
  if (!run.info.torch.empty()) out.push_back("PyTorch " + run.info.torch);
  if (!run.info.nccl.empty()) out.push_back("NCCL " + run.info.nccl);
  for (std::string& setting : changed_settings(unsaid ? run.settings : of_sizes(run.settings, sizes)))
    if (!setting.starts_with("gpus ") && !setting.starts_with("nodes ")) out.push_back(std::move(setting));
  return out;
}

std::vector<std::string> caption(const Run& run, const Window& window, const CaptionFacts& facts) {
  std::vector<std::string> out;
  constexpr std::array<std::pair<const char*, const char*>, 5> kTimes{
      {{"step_ms", "step"},
       {"host_ms", "host"},
       {"compute_ms", "compute"},
       {"communication_ms", "communication"},
       {"exposed_communication_ms", "exposed communication"}}};
  for (const auto& [key, title] : kTimes)
    if (std::string text = result_ms(run, key, title); !text.empty()) out.push_back(std::move(text));
  if (const double step = run.measured ? run.measured->steady_ms() : 0; step > 0 && run.results.empty())
    out.push_back(fmt::format("step {:.2f} ms (measured without a profiler, {})", step,
                              run.measured->cycle > 1 ? "mean: steps differ" : "median"));
  if (facts.memory != nullptr) memory_facts(*facts.memory, facts.least_gib, counts_events(run), out);
  if (std::string note = clock_note(window); !note.empty()) out.push_back(std::move(note));
  if (facts.pale) out.emplace_back("pale: issued by the host in another step");
  return out;
}

std::vector<std::string> wrapped(const std::vector<std::string>& pieces, std::string_view separator, double width,
                                 double size) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& piece, std::string_view between) {
    const std::string longer = lines.empty() ? piece : fmt::format("{}{}{}", lines.back(), between, piece);
    if (lines.empty() || text_width(longer, size) > width)
      lines.push_back(piece);
    else
      lines.back() = longer;
  };
  for (const std::string& piece : pieces) {
    if (text_width(piece, size) <= width) {
      add(piece, separator);
      continue;
    }
    // One that is too long for a line by itself breaks between its words.
    std::string_view between = separator;
    for (std::size_t at = 0; at < piece.size(); between = " ") {
      const std::size_t end = std::min(piece.find(' ', at), piece.size());
      add(piece.substr(at, end - at), between);
      at = end + 1;
    }
  }
  return lines;
}

}  // namespace foreshard::viz
