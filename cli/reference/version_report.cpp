#include "cli/reference/version_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/terminal/version.hpp"
#include "cli/verbs/gpu_backend.hpp"
#include "core/base/check.hpp"
#include "core/base/digest.hpp"
#include "core/base/json_io.hpp"
#include "core/settings/pytorch_version.hpp"
#include "sim/machine/merge_profile.hpp"
#include "sim/machine/profile.hpp"
#include "traces/store/schema.hpp"

namespace foreshard::cli {
namespace {

struct BuiltinMachine {
  std::string_view name;
  std::string digest;  ///< of the complete profile, as a fingerprint has it
};

std::vector<BuiltinMachine> builtin_machines() {
  std::vector<BuiltinMachine> out;
  for (const std::string_view name : sim::builtin_profile_names()) {
    const auto json = sim::builtin_profile_json(name);
    FORESHARD_CHECK(json.has_value(), "a built-in profile has its JSON");
    const auto whole = sim::complete_profile(*json, name);
    FORESHARD_CHECK(whole.has_value(), "a built-in profile can be read");
    out.push_back({name, digest_of(json_text(*whole))});
  }
  return out;
}

}  // namespace

std::string version_report() {
  std::string out = version_text();
  out += fmt::format("PyTorch: {} to {} (of {}), default {}; FSDP2 in full from {} on, the allocator from 2.{} on\n",
                     kKnownPyTorch.front(), kKnownPyTorch.back(), kMainRead, kCheckedPyTorch, kFsdpSchedule,
                     kAllocatorVersions.oldest);
  out += fmt::format("store schema: {}\n", traces::kSchemaVersion);
  out += fmt::format("GPU back end: {}\n", gpu_backend() != nullptr
                                               ? "CUDA and NCCL"
                                               : "none in this program; run and probe start foreshard-gpu");
  out += "machine profiles:\n";
  for (const BuiltinMachine& machine : builtin_machines())
    out += fmt::format("  {:<8} {}\n", machine.name, machine.digest);
  return out;
}

Json version_json() {
  Json json = json_result("version");
  json["version"] = version_number();
  json["commit"] = version_commit();
  json["pytorch_rules"] = kKnownPyTorch;
  json["default_pytorch"] = kCheckedPyTorch;
  json["fsdp_schedule"] = kFsdpSchedule;
  json["store_schema"] = traces::kSchemaVersion;
  json["gpu_backend"] = gpu_backend() != nullptr;
  json["machines"] = Json::array();
  for (const BuiltinMachine& machine : builtin_machines())
    json["machines"].push_back({{"name", machine.name}, {"digest", machine.digest}});
  return json;
}

}  // namespace foreshard::cli
