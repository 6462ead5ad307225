// The model against the committed measurement on an H200: within the errors that docs/compute.md states, of which
// docs/notes/kernel_measurements.md has every row.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/kernel/kernel_cost.hpp"
#include "sim/compute/price_kernel.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

const Json& measured() {
  static const Json kDocument = Json::parse(std::ifstream("sim/machine/measured/h200_compute.json"));
  return kDocument;
}

/// The profile without the factors for a step under load: the kernels were measured one at a time.
const MachineProfile& unloaded() {
  static const MachineProfile kProfile = [] {
    MachineProfile profile = builtin_profile("h200").value();
    profile.compute.gemms.sustained = {};
    profile.compute.attention_forward.sustained = profile.compute.attention_backward.sustained = 1;
    return profile;
  }();
  return kProfile;
}

DType dtype_of(const Json& word) {
  if (word == "float32") return DType::float32;
  return word == "float16" ? DType::float16 : DType::bfloat16;
}

/// As tools/probe_compute.py laid the operands out: square, random, bmm and addmm as a forward.
GemmUse use_of(const Json& word) {
  if (word == "wgrad") return GemmUse::wgrad;
  return word == "dgrad" ? GemmUse::dgrad : GemmUse::forward;
}

struct Errors {
  std::vector<double> values;  // |predicted / measured - 1|
  void add(double predicted_us, double measured_us) { values.push_back(std::abs(predicted_us / measured_us - 1)); }
  [[nodiscard]] double mean() const {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }
};

TEST_CASE("GEMMs are within the stated error of the measured ones") {
  Errors large;
  Errors every;
  Errors unaligned;
  Errors float32;
  for (const Json& row : measured()["gemm"]) {
    if (row[0] == "tf32") continue;  // off in PyTorch unless asked for; not modelled
    const auto extent = [&](int i) { return row[i].get<std::uint64_t>(); };
    if (std::min({extent(3), extent(4), extent(5)}) < 4) continue;
    const KernelWork work =
        gemm_cost(extent(3), extent(4), extent(5), dtype_of(row[0]), row[2].get<std::uint32_t>(), use_of(row[1]));
    const double predicted = price_kernel(unloaded(), work).time.us();
    const double us = row[6].get<double>();
    const std::string kernel = row[7].get<std::string>();
    Errors& group = row[0] == "float32" ? float32 : kernel.starts_with("cutlass") ? unaligned : every;
    group.add(predicted, us);
    if (row[0] != "float32") CHECK(work.math.unaligned == kernel.starts_with("cutlass"));
    if (&group == &every && us >= 40) large.add(predicted, us);
  }
  CHECK(large.values.size() > 200);
  CHECK(large.mean() < 0.07);
  CHECK(*std::max_element(large.values.begin(), large.values.end()) < 0.25);
  CHECK(every.mean() < 0.09);
  CHECK(float32.mean() < 0.07);
  CHECK(unaligned.mean() < 0.25);
}

TEST_CASE("GEMMs in float8, priced by bfloat16's constants at its own peak, are within the stated error") {
  Errors every;
  Errors large;
  const Json document = Json::parse(std::ifstream("sim/machine/measured/h200_float8.json"));
  for (const Json& row : document["float8"]["gemm"]) {
    const auto extent = [&](int i) { return row[i].get<std::uint64_t>(); };
    KernelWork work{KernelClass::gemm, {}, 0, 0, {}};
    work.math = {KernelMath::Kind::gemm, DType::float8_e4m3fn, false, 1, extent(3), extent(4), extent(5)};
    const double us = row[6].get<double>();
    every.add(price_kernel(unloaded(), work).time.us(), us);
    if (us >= 40) large.add(price_kernel(unloaded(), work).time.us(), us);
  }
  CHECK(every.values.size() > 600);
  CHECK(large.values.size() > 200);
  CHECK(large.mean() < 0.07);
  CHECK(every.mean() < 0.12);
}

TEST_CASE("attention is within the stated error of the measured one") {
  Errors forward;
  Errors backward;
  for (const Json& row : measured()["attention"]) {
    KernelWork work;
    const auto length = row[5].get<std::uint64_t>();
    work.math = {KernelMath::Kind::attention_forward,
                 dtype_of(row[0]),
                 row[1].get<bool>(),
                 row[2].get<std::uint32_t>() * row[3].get<std::uint32_t>(),
                 length,
                 length,
                 row[6].get<std::uint64_t>()};
    forward.add(price_kernel(unloaded(), work).time.us(), row[7].get<double>());
    work.math.kind = KernelMath::Kind::attention_backward;
    double main = 0;
    for (const Json& kernel : row[10]) main = std::max(main, kernel[2].get<double>());
    backward.add(price_kernel(unloaded(), work).time.us(), main);
  }
  CHECK(forward.mean() < 0.07);
  CHECK(backward.mean() < 0.08);
}

TEST_CASE("kernels on views are within the stated error of the measured ones") {
  Errors errors;
  for (const Json& row : measured()["strided"]) {
    if (row[0] == "cat_same") continue;
    KernelWork work;
    work.bytes = row[7].get<Bytes>();
    work.math.dtype = dtype_of(row[1]);
    work.math.m = row[6].get<std::uint64_t>();
    work.math.access = row[0] == "add_same"    ? MemoryAccess::contiguous
                       : row[0] == "cat_views" ? MemoryAccess::concatenate
                                               : MemoryAccess::strided;
    errors.add(price_kernel(unloaded(), work).time.us(), row[8].get<double>());
  }
  CHECK(errors.mean() < 0.1);
}

}  // namespace
}  // namespace foreshard::sim
