#include <algorithm>
#include <filesystem>

#include "accuracy/accuracy.hpp"
#include "sim/calibrate/measurements.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "traces/files/text_file.hpp"

namespace foreshard::accuracy {
namespace {

namespace fs = std::filesystem;

/// comm_bench.py's files, and lines of gpu_bench_collectives.
bool measures_collectives(const fs::path& path) {
  return (path.filename().string().starts_with("comm_") && path.extension() == ".json") || path.extension() == ".jsonl";
}

CollectiveRow row_of(const sim::CollectiveSample& sample, const sim::CollectiveCost& cost, CollectiveRow row) {
  sim::CollectiveRequest& request = row.check.request;
  request.kind = sample.kind;
  request.transport = sample.transport;
  request.bytes = sample.bytes;
  request.ranks = sample.ranks;
  request.ranks_per_node = sample.ranks_per_node;
  request.upcasts = sample.upcasts;
  request.dtype = sample.dtype;
  const sim::CollectivePrice price = cost.price(request);
  row.by_pytorch = sample.by_pytorch;
  row.check.measured_us = sample.us;
  row.check.predicted_us = (sample.by_pytorch ? price.period : price.time).us();
  row.check.path = price.path;
  return row;
}

}  // namespace

Result<std::vector<CollectiveRow>> check_collectives(const std::string& folder, const sim::MachineProfile& machine) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (measures_collectives(it->path())) files.push_back(it->path().string());
  std::sort(files.begin(), files.end());
  const sim::ModelledCollectives cost(machine);
  std::vector<CollectiveRow> rows;
  for (const std::string& path : files) {
    const auto text = traces::read_text(path);
    FORESHARD_TRY(text);
    const auto read = sim::read_measurements(*text, path);
    FORESHARD_TRY(read);
    const std::string name = fs::path(path).filename().string();
    const CollectiveRow of_file{name, seen(machine, sim::ConstantUse::collective, name), false, {}};
    for (const sim::CollectiveSample& sample : read->collectives) rows.push_back(row_of(sample, cost, of_file));
  }
  return rows;
}

}  // namespace foreshard::accuracy
