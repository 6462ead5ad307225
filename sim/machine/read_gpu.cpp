// "/gpu" and "/host": what the GPU is, and how far its host may run ahead of it.
#include <array>

#include "core/workload/workload_names.hpp"
#include "sim/machine/profile_sections.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kLeastCapability = 80;  // flash attention and bfloat16 GEMMs begin there
constexpr std::uint32_t kMaxCapability = 199;

void read_peaks(ProfileReader& reader, const Json& gpu, GpuPeaks& out) {
  static constexpr std::array<std::string_view, 3> kMatrix{"bfloat16", "float16", "float8"};
  static constexpr std::array<std::string_view, 1> kVector{"float32"};
  const std::array<double*, 2> matrix_rates{&out.matrix_bfloat16, &out.matrix_float16};
  if (const Json* matrix = reader.member(gpu, "/gpu", "matrix")) {
    reader.known_keys(*matrix, "/gpu/matrix", kMatrix);
    for (std::size_t i = 0; i < matrix_rates.size(); ++i)
      *matrix_rates[i] = 1e12 * reader.constant(*matrix, "/gpu/matrix", kMatrix[i], "TFLOP/s");
    if (reader.member(*matrix, "/gpu/matrix", "float8", false) != nullptr)
      out.matrix_float8 = 1e12 * reader.constant(*matrix, "/gpu/matrix", "float8", "TFLOP/s");
  }
  if (const Json* vector = reader.member(gpu, "/gpu", "vector")) {
    reader.known_keys(*vector, "/gpu/vector", kVector);
    out.vector_float32 = 1e12 * reader.constant(*vector, "/gpu/vector", "float32", "TFLOP/s");
  }
}

void read_cpu_optimizer(ProfileReader& reader, const Json& section, CpuOptimizer& out) {
  constexpr const char* kPath = "/host/cpu_optimizer";
  static constexpr std::array<std::string_view, 4> kKeys{"adam", "sgd", "threads", "one_thread"};
  reader.known_keys(section, kPath, kKeys);
  out.adam = reader.time(section, kPath, "adam");
  out.sgd = reader.time(section, kPath, "sgd");
  out.threads = static_cast<std::uint32_t>(reader.constant(section, kPath, "threads", "count"));
  out.one_thread = reader.constant(section, kPath, "one_thread", "ratio");
}

}  // namespace

void read_gpu(ProfileReader& reader, const Json& gpu, MachineProfile& out) {
  static constexpr std::array<std::string_view, 9> kKeys{"sm_count",         "clock",        "matrix",
                                                         "vector",           "memory_total", "memory_other",
                                                         "memory_bandwidth", "l2",           "compute_capability"};
  reader.known_keys(gpu, "/gpu", kKeys);
  const auto mebibytes = [&](std::string_view key, bool zero_allowed = false) {
    return static_cast<Bytes>(reader.constant(gpu, "/gpu", key, "MiB", zero_allowed)) * kMiB;
  };
  out.sm_count = static_cast<std::uint32_t>(reader.constant(gpu, "/gpu", "sm_count", "count"));
  out.compute_capability = static_cast<std::uint32_t>(reader.constant(gpu, "/gpu", "compute_capability", "count"));
  if (out.compute_capability < kLeastCapability || out.compute_capability > kMaxCapability)
    reader.fail("/gpu/compute_capability/value", "is ten times the major version and the minor one, from 80 to 199",
                "80 of an A100, 90 of an H100 or H200, 100 of a B200");
  out.memory_total = mebibytes("memory_total");
  out.memory_other = mebibytes("memory_other", true);
  if (out.memory_other >= out.memory_total)
    reader.fail("/gpu/memory_other/value", "no memory would be left", "it is a part of memory_total");
  out.peaks.clock_hz = 1e6 * reader.constant(gpu, "/gpu", "clock", "MHz");
  out.peaks.memory_bandwidth = 1e9 * reader.constant(gpu, "/gpu", "memory_bandwidth", "GB/s");
  out.peaks.l2 = mebibytes("l2");
  read_peaks(reader, gpu, out.peaks);
}

void read_host(ProfileReader& reader, const Json& host, MachineProfile& out) {
  static constexpr std::array<std::string_view, 4> kKeys{"launch_queue", "calls", "cpu_optimizer", "program"};
  static constexpr std::span<const std::string_view> kPrograms(EnumNames<Lowering>::kNames);
  static constexpr std::array<std::string_view, 2> kProgramKeys{"value", "source"};
  reader.known_keys(host, "/host", kKeys);
  out.launch_queue = static_cast<std::uint32_t>(reader.constant(host, "/host", "launch_queue", "count"));
  if (const Json* calls = reader.member(host, "/host", "calls", false)) read_host_calls(reader, *calls, out);
  if (const Json* optimizer = reader.member(host, "/host", "cpu_optimizer", false))
    read_cpu_optimizer(reader, *optimizer, out.host_calls.cpu_optimizer);
  if (const Json* program = reader.member(host, "/host", "program", false)) {
    reader.known_keys(*program, "/host/program", kProgramKeys);
    out.host_calls.program = static_cast<Lowering>(reader.word(*program, "/host/program", "value", kPrograms));
    reader.source_only(*program, "/host/program");
  }
}

}  // namespace foreshard::sim
