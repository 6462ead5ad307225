#include "tests/reference/reference_runs.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "traces/capture/import.hpp"

namespace foreshard::reference {

bool ReferenceRuns::has(const std::string& name) const {
  return std::filesystem::exists(folder_ + "/" + name + ".pickle.xz");
}

std::vector<std::string> ReferenceRuns::names() const {
  constexpr std::string_view kSuffix = ".pickle.xz";
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string file = entry.path().filename().string();
    if (file.size() > kSuffix.size() && file.ends_with(kSuffix))
      names.push_back(file.substr(0, file.size() - kSuffix.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

MeasuredRun ReferenceRuns::measured(const std::string& name) const {
  const std::string path = folder_ + "/" + name + ".json";
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  const auto json = nlohmann::json::parse(file);
  MeasuredRun out;
  const std::vector<double> all = json.at("step_ms");
  out.step_ms.assign(all.begin() + 2, all.end());
  out.median_ms = json.at("step_ms_median");
  std::vector<double> sorted = out.step_ms;
  std::sort(sorted.begin(), sorted.end());
  out.low_ms = sorted[1];
  out.high_ms = sorted[sorted.size() - 2];
  const auto& last = json.at("memory_steps").back();
  out.peaks.requested = last.at("requested_bytes.all.peak");
  out.peaks.allocated = last.at("allocated_bytes.all.peak");
  out.peaks.active = last.at("active_bytes.all.peak");
  out.peaks.reserved = last.at("reserved_bytes.all.peak");
  return out;
}

const ReferenceRun& ReferenceRuns::run(const std::string& name) {
  if (const auto it = runs_.find(name); it != runs_.end()) return it->second;
  const std::string base = folder_ + "/" + name;
  traces::ImportRequest request;
  request.snapshot = base + ".pickle.xz";
  request.about = base + ".about.json";
  if (std::filesystem::exists(base + ".trace.json.xz")) request.trace = base + ".trace.json.xz";
  auto imported = traces::import_recording(request);
  if (!imported) throw std::runtime_error(imported.error().text());
  if (!imported->workload) throw std::runtime_error(name + ": the import made no workload");
  return runs_.emplace(name, ReferenceRun{std::move(*imported->workload), measured(name)}).first->second;
}

void Rankings::add(const std::string& from, double predicted_ms, const MeasuredRun& measured) {
  const auto apart = [](const MeasuredRun& slow, const MeasuredRun& fast) {
    return slow.median_ms > 1.03 * fast.median_ms && slow.low_ms > fast.high_ms;
  };
  std::vector<Entry>& entries = by_recording_[from];
  for (const Entry& other : entries) {
    const bool slower = apart(measured, other.measured);
    if (!slower && !apart(other.measured, measured)) continue;
    (slower == (predicted_ms > other.predicted_ms) ? right_ : wrong_) += 1;
  }
  entries.push_back({predicted_ms, measured});
}

std::vector<Pair> read_pairs(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  std::vector<Pair> pairs;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    Pair pair;
    words >> pair.from >> pair.to >> pair.kind;
    pairs.push_back(pair);
  }
  return pairs;
}

}  // namespace foreshard::reference
