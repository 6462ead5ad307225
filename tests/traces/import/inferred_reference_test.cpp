// What the reference runs' recordings settle without their about files, against those files: settings, units, and the
// peaks planned from both. FORESHARD_TRUTH names their folder; without it these tests are skipped.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "core/settings/settings_table.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/truth_folder.hpp"
#include "traces/import/import.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

/// A key that a class of runs does not settle, and why.
struct Unknown {
  std::string_view key;
  bool (*applies)(const Run& given);
  std::string_view why;
};

/// No attention kernel whose grid has the batch in it: cuDNN's forward and plain multi-head backward have not, an MLP
/// has none at all.
bool hides_batch(const Run& given) {
  constexpr std::array<std::string_view, 3> kGridsWithBatch{"fmha_reduce_head", "fmha_cutlassF", "flash_fwd_kernel"};
  return std::none_of(given.device_ops.begin(), given.device_ops.end(), [&](const DeviceOpRecord& op) {
    return std::any_of(kGridsWithBatch.begin(), kGridsWithBatch.end(), [&](std::string_view kernel) {
      return given.labels.text(op.label).find(kernel) != std::string::npos;
    });
  });
}

constexpr std::array kUnknown{
    Unknown{"batch", hides_batch, "the inputs' bytes are those of batch times sequence length"},
    Unknown{"seq", hides_batch, "the same"},
};

bool is_unknown(std::string_view key, const Run& given) {
  return std::any_of(kUnknown.begin(), kUnknown.end(),
                     [&](const Unknown& u) { return u.key == key && u.applies(given); });
}

std::set<std::string> run_names(const std::string& folder) {
  std::set<std::string> names;
  const std::string suffix = ".about.json";
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (const std::string name = entry.path().filename().string(); name.ends_with(suffix))
      names.insert(name.substr(0, name.size() - suffix.size()));
  return names;
}

ImportRequest request_of(const std::string& folder, const std::string& name, bool about) {
  ImportRequest request{.snapshot = folder + "/" + name + ".pickle.xz", .name = name};
  for (const char* suffix : {".trace.json.xz", ".rank0.trace.json.xz"})
    if (std::filesystem::exists(folder + "/" + name + suffix)) request.trace = folder + "/" + name + suffix;
  if (about) request.about = folder + "/" + name + ".about.json";
  return request;
}

void check_settings(const Run& inferred, const Run& given) {
  const auto a = setting_options(inferred.settings);
  const auto b = setting_options(given.settings);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (is_unknown(a[i].first, given)) continue;
    INFO(a[i].first);
    CHECK(a[i].second == b[i].second);
  }
}

/// Names and shapes are not in a recording: element counts are.
void check_units(const Run& inferred, const Run& given) {
  REQUIRE(inferred.units.size() == given.units.size());
  for (std::size_t u = 0; u < given.units.size(); ++u) {
    INFO("unit '" << given.units[u].name << "'");
    CHECK(inferred.units[u].name == given.units[u].name);
    REQUIRE(inferred.units[u].parameters.size() == given.units[u].parameters.size());
    for (std::size_t p = 0; p < given.units[u].parameters.size(); ++p) {
      const Parameter& a = inferred.units[u].parameters[p];
      const Parameter& b = given.units[u].parameters[p];
      INFO(b.name);
      CHECK(a.numel() == b.numel());
      CHECK(a.dtype == b.dtype);
      CHECK(a.requires_grad == b.requires_grad);
    }
  }
}

MemoryPeaks planned(const Workload& workload, const sim::MachineProfile& machine) {
  sim::PredictRequest request;
  request.settings = workload.settings;
  const auto prediction = sim::predict(workload, machine, request);
  REQUIRE(prediction);
  return prediction->peaks;
}

}  // namespace

TEST_CASE("recordings settle what their about files say, and plans from both are equal") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  const auto machine = sim::builtin_profile("h200");
  REQUIRE(machine);
  for (const std::string& name : run_names(*folder)) {
    INFO(name);
    const auto inferred = import_recording(request_of(*folder, name, false));
    if (!inferred) UNSCOPED_INFO(inferred.error().text());
    REQUIRE(inferred);
    CHECK(inferred->inference->why_not == std::string());
    REQUIRE(inferred->workload);
    const auto given = import_recording(request_of(*folder, name, true));
    if (!given) UNSCOPED_INFO(given.error().text());
    REQUIRE(given);
    check_settings(inferred->run, given->run);
    check_units(inferred->run, given->run);
    REQUIRE(given->workload);
    Workload with_times = *inferred->workload;  // blocks that wait for the GPU come back by time
    with_times.measured = given->workload->measured;
    const MemoryPeaks a = planned(with_times, *machine);
    const MemoryPeaks b = planned(*given->workload, *machine);
    CHECK(a.requested == b.requested);
    CHECK(a.allocated == b.allocated);
    CHECK(a.active == b.active);
    CHECK(a.reserved == b.reserved);
  }
}

TEST_CASE("a snapshot alone gives a workload, and what it settles is so") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  for (const std::string& name : run_names(*folder)) {
    INFO(name);
    ImportRequest request = request_of(*folder, name, false);
    request.trace.clear();
    const auto inferred = import_recording(request);
    REQUIRE(inferred);
    CHECK(inferred->workload.has_value());
    request.about = *folder + "/" + name + ".about.json";
    const auto given = import_recording(request);
    REQUIRE(given);
    const auto settled = [&](const std::string& key) {
      const InferredItem* item = inferred->inference->item(key);
      return item != nullptr && item->settled;
    };
    const auto a = setting_options(inferred->run.settings);
    const auto b = setting_options(given->run.settings);
    for (std::size_t i = 0; i < a.size(); ++i) {
      INFO(a[i].first);
      if (settled(a[i].first)) CHECK(a[i].second == b[i].second);
    }
  }
}
