#include "sim/calibrate/nccl_tests_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foreshard::sim {
namespace {

struct Program {
  std::string_view word;  ///< in program and file names
  std::optional<CollectiveKind> kind;
};
constexpr std::array kPrograms{
    Program{"all_gather", CollectiveKind::all_gather},
    Program{"allgather", CollectiveKind::all_gather},
    Program{"reduce_scatter", CollectiveKind::reduce_scatter},
    Program{"reducescatter", CollectiveKind::reduce_scatter},
    Program{"all_reduce", CollectiveKind::all_reduce},
    Program{"allreduce", CollectiveKind::all_reduce},
    Program{"alltoall", CollectiveKind::all_to_all},
    Program{"broadcast", CollectiveKind::broadcast},
    Program{"sendrecv", CollectiveKind::send_recv},
    Program{"hypercube", std::nullopt},
    Program{"gather", std::nullopt},
    Program{"scatter", std::nullopt},
    Program{"reduce", CollectiveKind::reduce},
};

const Program* named(std::string_view text) {
  const std::size_t slash = text.rfind('/');
  if (slash != std::string_view::npos) text.remove_prefix(slash + 1);
  for (const Program& program : kPrograms)
    if (text.find(program.word) != std::string_view::npos) return &program;
  return nullptr;
}

/// Bandwidths are printed with two digits after the point, so only well measured ones are compared.
bool agrees(double given, double expected) {
  return std::abs(given - expected) <= 0.02 * expected + 0.011;
}

/// From the bandwidths: 2(n−1)/n is an all-reduce; (n−1)/n with a reduction is a reduce-scatter. Without a reduction it
/// may be an all-gather or an all-to-all: nothing.
std::optional<CollectiveKind> told_by_rows(const NcclTestsRun& run, std::uint32_t ranks) {
  const NcclTestsRow& row = run.rows.back();  // the largest, mostly
  const NcclTestsTime* time = row.out_of_place ? &*row.out_of_place : row.in_place ? &*row.in_place : nullptr;
  if (time == nullptr || row.operation.empty() || row.operation == "none") return std::nullopt;
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter})
    if (agrees(time->bus_gb_per_s, time->algorithm_gb_per_s * bus_factor(kind, ranks))) return kind;
  return std::nullopt;
}

/// nccl-tests' words (common.cu, test_typenames); "float" is its default.
struct Type {
  std::string_view word;
  DType dtype;
};
constexpr std::array kTypes{Type{"float", DType::float32}, Type{"bfloat16", DType::bfloat16},
                            Type{"half", DType::float16},  Type{"double", DType::float64},
                            Type{"int32", DType::int32},   Type{"int64", DType::int64},
                            Type{"uint8", DType::uint8}};

/// Float where it is one that is not known, as sums of one byte an element: what they cost was not measured.
DType dtype_of(const std::string& type) {
  const auto it = std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& each) { return each.word == type; });
  return it != kTypes.end() ? it->dtype : DType::float32;
}

Result<void> check(const NcclTestsRow& row, const NcclTestsTime& time, CollectiveKind kind, std::uint32_t ranks) {
  const double gb_per_s = static_cast<double>(row.bytes) / time.us / 1e3;
  if (!agrees(time.algorithm_gb_per_s, gb_per_s))
    return fail(ErrorKind::input,
                fmt::format("{} bytes in {} us are {:.2f} GB/s, but algbw says {}", row.bytes, time.us, gb_per_s,
                            time.algorithm_gb_per_s),
                row.place, "is the file damaged?");
  if (!agrees(time.bus_gb_per_s, time.algorithm_gb_per_s * bus_factor(kind, ranks)))
    return fail(ErrorKind::input,
                fmt::format("busbw {} is not that of {} ranks with algbw {}", time.bus_gb_per_s, ranks,
                            time.algorithm_gb_per_s),
                row.place, "is the list of ranks complete, and the file of that collective?");
  return {};
}

Result<std::pair<std::uint32_t, std::uint32_t>> ranks_of(const NcclTestsRun& run) {
  std::uint32_t ranks = 0;
  for (const auto& [host, count] : run.hosts) ranks += count;
  const std::string& place = run.rows.front().place;
  if (ranks < 2)
    return fail(ErrorKind::input, fmt::format("the header lists {} ranks", ranks), place,
                "a collective needs two; keep the lines \"#  Rank  0 Group  0 …\" in the file");
  const std::uint32_t per_node = run.hosts.begin()->second;
  for (const auto& [host, count] : run.hosts)
    if (count != per_node)
      return fail(ErrorKind::input, fmt::format("host {} has {} ranks, another {}", host, count, per_node), place,
                  "only equal nodes can be described");
  return std::pair(ranks, per_node);
}

/// What the output says itself goes before `stated`; a file name of no plan's collective does not.
Result<std::optional<CollectiveKind>> kind_of(const NcclTestsRun& run, std::string_view where, std::uint32_t ranks,
                                              std::optional<CollectiveKind> stated) {
  if (const Program* program = named(run.program)) return program->kind;
  if (const Program* program = named(where); program != nullptr && (program->kind || !stated)) return program->kind;
  if (const auto kind = told_by_rows(run, ranks)) return kind;
  if (stated) return stated;
  return fail(ErrorKind::input, "the output does not say which collective it measured", run.rows.front().place,
              "name the file after the program: all_gather_perf.txt, reduce_scatter_perf.txt, all_reduce_perf.txt; or, "
              "for 'foreshard collectives', say it: all-gather --against FILE");
}

}  // namespace

Result<void> add_run(const NcclTestsRun& run, std::string_view where, const ReadOptions& options, Measurements& out) {
  if (run.rows.empty()) return {};
  const auto ranks = ranks_of(run);
  FORESHARD_TRY(ranks);
  const auto kind = kind_of(run, where, ranks->first, options.kind);
  FORESHARD_TRY(kind);
  if (!*kind) {
    out.note(fmt::format("a run of {}: not a collective that a plan has", run.program.empty() ? where : run.program));
    return {};
  }
  if (out.gpu.empty()) out.gpu = run.gpu;
  for (const NcclTestsRow& row : run.rows) {
    const bool in_place = **kind == CollectiveKind::all_gather || **kind == CollectiveKind::all_reduce;
    const auto& first = in_place ? row.in_place : row.out_of_place;
    const auto& time = first ? first : (in_place ? row.out_of_place : row.in_place);
    if (row.bytes == 0 || !time) {
      out.note("rows without bytes or a time");
      continue;
    }
    if (auto ok = check(row, *time, **kind, ranks->first); !ok) return ok;
    CollectiveSample sample{**kind, options.transport, ranks->first, ranks->second, row.bytes, time->us};
    if (adds(**kind)) sample.dtype = dtype_of(row.type);
    sample.in_place = first ? in_place : !in_place;
    out.collectives.push_back(sample);
  }
  return {};
}

}  // namespace foreshard::sim
