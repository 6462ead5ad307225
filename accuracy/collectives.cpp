#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "accuracy/accuracy.hpp"
#include "core/base/strict_json.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "traces/files/text_file.hpp"
#include "traces/pytorch/json_object.hpp"

namespace foreshard::accuracy {
namespace {

namespace fs = std::filesystem;

// What the benchmark's variants ask for. The zero-CTA policy moves all-gathers to the copy engines; reductions stay
// symmetric kernels (NCCL 2.28).
struct Variant {
  std::string_view name;
  Transport all_gather;
  Transport reduce_scatter;
};
constexpr std::array kVariants{Variant{"nccl", Transport::nccl, Transport::nccl},
                               Variant{"nccl-symm", Transport::symmetric, Transport::symmetric},
                               Variant{"nccl-zero-cta", Transport::copy_engine, Transport::symmetric}};

/// `made` has what the file says of all its rows.
Result<void> add_row(const traces::OrderedJson& row, const std::string& where, const sim::CollectiveCost& cost,
                     CollectiveRow made, std::vector<CollectiveRow>& out) {
  const traces::JsonObject object{row, where};
  if (!row.is_object()) return fail(ErrorKind::input, "an object is needed, this is " + traces::describe(row), where);
  const auto op = object.text("op");
  FORESHARD_TRY(op);
  if (*op != "all_gather" && *op != "reduce_scatter") return {};  // contention rows
  const auto name = object.text("variant");
  const auto world = object.count("world", 1);
  const auto bytes = object.count("total_bytes", 1);
  FORESHARD_TRY(name);
  FORESHARD_TRY(world);
  FORESHARD_TRY(bytes);
  const traces::OrderedJson* us = object.find("us");
  if (us == nullptr || !us->is_number() || us->get<double>() <= 0)
    return fail(ErrorKind::input, "a time in microseconds is needed", object.place_of("us"));
  const auto variant = std::find_if(kVariants.begin(), kVariants.end(), [&](const auto& v) { return v.name == *name; });
  if (variant == kVariants.end())
    return fail(ErrorKind::input, fmt::format("unknown variant '{}'", name->substr(0, 80)), object.place_of("variant"));
  made.variant = *name;
  const bool gather = *op == "all_gather";
  sim::CollectiveRequest& request = made.check.request;
  request.kind = gather ? CollectiveKind::all_gather : CollectiveKind::reduce_scatter;
  request.transport = gather ? variant->all_gather : variant->reduce_scatter;
  request.bytes = *bytes;
  request.ranks = request.ranks_per_node = *world;
  const sim::CollectivePrice price = cost.price(request);
  made.check.measured_us = us->get<double>();
  made.check.predicted_us = price.period.us();
  made.check.path = price.path;
  out.push_back(std::move(made));
  return {};
}

}  // namespace

Result<std::vector<CollectiveRow>> check_collectives(const std::string& folder, const sim::MachineProfile& machine) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().starts_with("comm_") && it->path().extension() == ".json")
      files.push_back(it->path().string());
  std::sort(files.begin(), files.end());
  const sim::ModelledCollectives cost(machine);
  std::vector<CollectiveRow> rows;
  for (const std::string& path : files) {
    const auto text = traces::read_text(path);
    FORESHARD_TRY(text);
    const auto json = parse_strict_ordered_json(*text, path);
    FORESHARD_TRY(json);
    if (!json->is_array())
      return fail(ErrorKind::input, "an array is needed, this is " + traces::describe(*json), path);
    const std::string name = fs::path(path).filename().string();
    const CollectiveRow of_file{{}, name, seen(machine, sim::ConstantUse::collective, name), {}};
    for (std::size_t i = 0; i < json->size(); ++i)
      FORESHARD_TRY(add_row((*json)[i], fmt::format("{}, [{}]", path, i), cost, of_file, rows));
  }
  return rows;
}

}  // namespace foreshard::accuracy
