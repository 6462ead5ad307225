#include "tests/traces/workload_file/workload_sample.hpp"

#include <algorithm>
#include <tuple>

#include "core/workload/workload_names.hpp"

namespace foreshard::traces::test {
namespace {

// A structured binding names every member: one that is added does not compile until it is compared here.
auto fields(const AllocationSize& r) {
  const auto& [a, b, c] = r;
  return std::tuple(a, b, c);
}
auto fields(const KernelMath& r) {
  const auto& [a, b, c, d, e, f, g, h, i, j] = r;
  return std::tuple(a, b, c, d, e, f, g, h, i, j);
}
auto fields(const KernelWork& r) {
  const auto& [a, b, c, d, e, math] = r;
  return std::tuple(a, b, c, d, e, fields(math));
}
auto fields(const CopyWork& r) {
  const auto& [a, b, c, d] = r;
  return std::tuple(a, b, c, d);
}
auto fields(const UserCollective& r) {
  const auto& [a, b, c] = r;
  return std::tuple(a, b, c);
}
auto fields(const Op& r) {
  const auto& [a, b, c, d, e, f, g, size, i, j, kernel, copy, collective, behind, m, n, o, p, q] = r;
  static_cast<void>(q);
  return std::tuple(a, b, c, d, e, f, g, fields(size), i, j, fields(kernel), fields(copy), fields(collective), behind,
                    m, n, o, p);
}
auto fields(const SectionItem& r) {
  const auto& [a, b, c, d, e, f] = r;
  return std::tuple(a, b, c, d, e, f);
}
auto fields(const SnapshotSegment& r) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k] = r;
  return std::tie(a, b, c, d, e, f, g, h, i, j, k);
}

template <class Record>
bool same(const std::vector<Record>& a, const std::vector<Record>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (fields(a[i]) != fields(b[i])) return false;
  return true;
}

/// Kernels by op: their numbers in the program are nobody's business.
bool same(const Program& x, const Program& y) {
  const auto& [ops, kernels, uncomputed, loss] = x;
  static_cast<void>(uncomputed);  // not in the file
  if (!same(ops, y.ops) || loss != y.loss || kernels.empty() != y.kernels.empty()) return false;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if ((ops[i].kernel_index == kNoKernel) != (y.ops[i].kernel_index == kNoKernel)) return false;
    if (ops[i].kernel_index == kNoKernel) continue;
    const ProgramKernel& a = kernels.at(ops[i].kernel_index);
    const ProgramKernel& b = y.kernels.at(y.ops[i].kernel_index);
    if (a.kernel != b.kernel || a.where != b.where) return false;
  }
  return true;
}

bool same(const SectionCost& x, const SectionCost& y) {
  const auto& [section, unit, pass, items, host_after, group] = x;
  return std::tie(section, unit, pass, host_after, group) ==
             std::tie(y.section, y.unit, y.pass, y.host_after, y.group) &&
         same(items, y.items);
}

/// splitmix64 (Steele, Lea, Flood 2014): the same numbers with every library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  bool chance() { return below(2) == 0; }
  std::uint64_t bytes() { return chance() ? 0 : below(std::uint64_t{1} << 40); }
  Nanoseconds time() { return {chance() ? 0 : static_cast<std::int64_t>(below(1'000'000'000))}; }
  template <class E>
  E word() {
    return static_cast<E>(below(EnumNames<E>::kNames.size()));
  }
  template <class T>
  T id(std::uint64_t count) {
    return chance() ? T{} : T{static_cast<std::uint32_t>(below(count))};
  }
  std::string text() {
    static const std::vector<std::string> kTexts{"",       "a",         "layers.0", "with \"quotes\"",
                                                 "\n\t\\", "ünïcode ≠", "{[,:]}"};
    return kTexts[below(kTexts.size())] + std::to_string(below(1000));
  }

 private:
  std::uint64_t state_;
};

constexpr std::uint64_t kUnits = 3, kParameters = 6, kLabels = 5, kGroups = 2;
constexpr auto kParameterDTypes = static_cast<std::uint64_t>(DType::float8_e4m3fn);  // those in front of float8

/// Every field random, whatever the kind: the file keeps all of them.
Op random_op(Random& random) {
  Op op;
  op.kind = random.word<OpKind>();
  op.user_stream = static_cast<std::uint8_t>(random.below(256));
  op.host_before = random.time();
  op.size = {random.word<AllocationSize::Kind>(), random.bytes(), ParameterId{}};
  op.size.parameter = ParameterId{static_cast<std::uint32_t>(random.below(kParameters))};
  op.category = random.word<MemoryCategory>();
  op.gradient_of = random.id<ParameterId>(kParameters);
  op.kernel = {random.word<KernelClass>(), random.time(), random.bytes(), static_cast<double>(random.below(1000)) / 7.0,
               random.id<LabelId>(kLabels)};
  op.kernel.math = {random.word<KernelMath::Kind>(),
                    static_cast<DType>(random.below(kDTypes.size())),
                    random.chance(),
                    static_cast<std::uint32_t>(1 + random.below(64)),
                    random.below(1u << 20),
                    random.below(1u << 20),
                    random.below(1u << 20),
                    random.word<MemoryAccess>(),
                    random.chance(),
                    random.word<RaggedExtent>()};
  op.copy = {random.word<CopyKind>(), random.bytes(), random.time(), random.id<LabelId>(kLabels)};
  op.collective = {static_cast<std::uint32_t>(random.below(kGroups)), random.word<CollectiveKind>(), random.bytes()};
  op.collectives_behind = static_cast<std::uint32_t>(random.below(3));
  op.hook = random.word<Hook>();
  op.unit = UnitId{static_cast<std::uint32_t>(random.below(kUnits))};
  op.label = random.id<LabelId>(kLabels);
  op.module = random.id<LabelId>(kLabels);
  if (random.chance()) op.kernel.label = op.copy.label = op.label;
  return op;
}

/// Tensors are named 0, 1, … and freed in order; `earlier` of them are in the program before.
Program random_program(Random& random, std::size_t ops, bool setup, std::uint32_t earlier) {
  Program out;
  std::uint32_t allocated = 0, freed = 0;
  while (out.ops.size() < ops) {
    Op op = random_op(random);
    if (op.kind == OpKind::alloc) {
      op.tensor = TensorId{allocated++};
    } else if (op.kind == OpKind::free && freed < allocated) {
      op.tensor = TensorId{freed++};
    } else if (op.kind == OpKind::free && !setup && earlier > 0) {
      op.tensor = TensorId{static_cast<std::uint32_t>(random.below(earlier))};
      op.steps_ago = 1;
    } else if (op.kind == OpKind::free) {
      op.before_recording = true;
    }
    out.ops.push_back(op);
  }
  return out;
}

/// A tensor's elements, or some of them, as whatever dtype.
TensorView random_view(Random& random, Bytes bytes, DType dtype, std::uint64_t elements) {
  TensorView view;
  view.dtype = dtype;
  const std::uint64_t spread = elements > 0 && random.chance() && bytes / itemsize(dtype) > 2 * elements ? 2 : 1;
  view.offset = random.chance() || elements == 0 ? 0 : bytes - ((elements - 1) * spread + 1) * itemsize(dtype);
  view.shape = {elements};
  view.strides = {spread};
  return view;
}

/// Every launch copies a part of one tensor to another, or of a parameter, or says that it is included.
void add_kernels(Random& random, const Workload& workload, Program& program) {
  std::vector<std::pair<TensorId, Bytes>> live;
  std::uint32_t included = kNoKernel;
  for (Op& op : program.ops) {
    const bool fixed = op.kind == OpKind::alloc && op.size.kind == AllocationSize::Kind::fixed;
    if (fixed && op.tensor.valid()) live.emplace_back(op.tensor, op.size.bytes);
    if (op.kind == OpKind::free && op.steps_ago == 0 && !op.before_recording)
      std::erase_if(live, [&](const auto& tensor) { return tensor.first == op.tensor; });
    if (op.kind != OpKind::kernel && op.kind != OpKind::copy) continue;
    const bool nothing = live.empty() || random.below(4) == 0;
    op.kernel_index = static_cast<std::uint32_t>(program.kernels.size());
    if (nothing && included != kNoKernel) op.kernel_index = included;
    if (nothing && included != kNoKernel) continue;
    ProgramKernel& made = program.kernels.emplace_back();
    if (nothing) included = op.kernel_index;
    if (nothing) continue;
    const auto [to, to_bytes] = live[random.below(live.size())];
    const auto [from, from_bytes] = live[random.below(live.size())];
    const auto parameter = static_cast<std::uint32_t>(random.below(kParameters));
    const Parameter& p = workload.units[parameter / 2].parameters[parameter % 2];
    const bool reads_parameter = random.chance() && !p.gathered_in_float8;  // copies take no float8
    const DType dtype = reads_parameter ? workload.settings.param_dtype.value_or(p.dtype) : DType::float32;
    const Bytes source = reads_parameter ? p.numel() * itemsize(dtype) : from_bytes;
    const std::uint64_t elements = std::min(to_bytes / 8, source / itemsize(dtype)) / (1 + random.below(3));
    made.kernel.op = KernelOp::copy;
    made.kernel.alpha = random.chance() ? 1 : 1.0 / static_cast<double>(1 + random.below(9));
    made.kernel.operands = {random_view(random, to_bytes, DType::int64, elements),
                            random_view(random, source, dtype, elements)};
    made.where = {{Operand::Kind::tensor, to.value}, {Operand::Kind::tensor, from.value}};
    if (reads_parameter) made.where[1] = {Operand::Kind::parameter, parameter};
    if (to_bytes >= 4) program.loss = to;
  }
}

std::uint32_t allocations(const Program& program) {
  std::uint32_t count = 0;
  for (const Op& op : program.ops)
    if (op.kind == OpKind::alloc) ++count;
  return count;
}

void add_memory(Random& random, Workload& out) {
  if (random.chance()) out.host_program = Lowering::foreshard;
  for (std::uint64_t i = random.below(3); i > 0; --i) {
    out.returns.frees += 1 + random.below(5);
    out.returns.late.push_back({out.returns.frees - 1, random.next() % 1000});
    out.estimates.push_back(random.text());
  }
  for (std::uint64_t i = random.below(3); i > 0; --i) {
    out.segment_addresses.push_back(random.next());
    out.segment_sizes.push_back(random.bytes());
    SnapshotSegment segment;
    segment.device = static_cast<std::uint32_t>(random.below(8));
    segment.address = random.next();
    segment.total_size = random.bytes();
    segment.allocated_size = random.bytes();
    segment.active_size = random.bytes();
    segment.requested_size = random.bytes();
    segment.stream = random.next();
    segment.small_pool = random.chance();
    segment.pool_id = {random.below(5), random.below(5)};
    segment.is_expandable = random.chance();
    for (std::uint64_t j = random.below(3); j > 0; --j)
      segment.blocks.push_back(
          {random.next(), random.bytes(), random.bytes(), static_cast<BlockState>(random.below(3))});
    out.initial_segments.push_back(segment);
  }
}

void add_sections(Random& random, Workload& out) {
  for (std::uint64_t i = random.below(4); i > 0; --i) {
    SectionCost& cost = out.sections.emplace_back();
    cost.section = random.word<Section>();
    cost.unit = random.id<UnitId>(kUnits);
    cost.pass = random.word<Pass>();
    cost.group = static_cast<std::uint32_t>(random.below(2));
    cost.host_after = random.time();
    for (std::uint64_t j = random.below(4); j > 0; --j)
      cost.items.push_back({random.word<SectionRole>(), random.time(), random.time(), random.word<KernelClass>(),
                            random.bytes(), random.id<LabelId>(kLabels)});
  }
}

void add_settings(Random& random, Settings& out) {
  out.gpus = 2 + 2 * static_cast<std::uint32_t>(random.below(8));
  if (random.chance()) out.param_dtype = DType::bfloat16;
  if (random.chance()) out.forward_prefetch = static_cast<std::uint32_t>(random.below(4));
  if (random.chance()) out.prefetch_lists.backward[random.text()] = {random.text(), random.text()};
  if (random.chance()) out.reshard_of_unit[random.text()] = {Reshard::Kind::group, 2};
  out.release = static_cast<Release>(random.below(3));
  out.all_gather = static_cast<Transport>(random.below(5));
  out.optimizer = static_cast<Optimizer>(random.below(4));
  if (random.chance()) out.alloc_conf = "expandable_segments:True";
}

}  // namespace

std::string difference(const Workload& x, const Workload& y) {
  const auto& [name, settings, lowering, host_program, units, process_groups, setup, steps, cycle, recorded,
               rank_shapes, sections, measured, recorded_host_ms, has_timing, sm_count, gpu, torch, segment_addresses,
               segment_sizes, returns, initial_segments, shards_known, optimizer_known, parameters_order, param_groups,
               estimates, labels] = x;
  if (std::tie(name, lowering, host_program, has_timing, sm_count, gpu, torch, shards_known, optimizer_known) !=
      std::tie(y.name, y.lowering, y.host_program, y.has_timing, y.sm_count, y.gpu, y.torch, y.shards_known,
               y.optimizer_known))
    return "a value of the workload";
  if (settings != y.settings) return "settings";
  if (cycle != y.cycle || recorded != y.recorded) return "recorded steps";
  if (rank_shapes != y.rank_shapes) return "rank_shapes";
  if (units != y.units) return "units";
  if (process_groups != y.process_groups) return "process_groups";
  if (labels.texts() != y.labels.texts()) return "labels";
  if (parameters_order != y.parameters_order) return "parameters_order";
  if (param_groups != y.optimizer_param_groups) return "optimizer_param_groups";
  if (segment_addresses != y.segment_addresses || segment_sizes != y.segment_sizes) return "segments";
  if (returns != y.returns) return "returns";
  if (estimates != y.estimates) return "estimates";
  if (!same(initial_segments, y.initial_segments)) return "initial_segments";
  if (recorded_host_ms != y.recorded_host_ms) return "recorded_host_ms";
  if (measured.has_value() != y.measured.has_value()) return "measured";
  if (measured &&
      std::tie(measured->step_ms, measured->host_issue_ms, measured->cycle, measured->late_rank,
               measured->late_itself) != std::tie(y.measured->step_ms, y.measured->host_issue_ms, y.measured->cycle,
                                                  y.measured->late_rank, y.measured->late_itself))
    return "measured";
  if (sections.size() != y.sections.size()) return "sections";
  for (std::size_t i = 0; i < sections.size(); ++i)
    if (!same(sections[i], y.sections[i])) return "section " + std::to_string(i);
  if (steps.size() != y.steps.size()) return "steps";
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (!same(steps[i], y.steps[i])) return "step " + std::to_string(i);
  return same(setup, y.setup) ? "" : "setup";
}

Workload random_workload(std::uint64_t seed, std::size_t ops_per_program) {
  Random random(seed);
  Workload out;
  for (std::uint64_t i = 0; i < kLabels; ++i) out.labels.intern(random.text() + "/" + std::to_string(i));
  out.name = random.text();
  add_settings(random, out.settings);
  for (std::uint64_t i = 0; i < kUnits; ++i) {
    Unit& unit = out.units.emplace_back();
    unit.name = i == 0 ? "" : random.text();
    for (std::uint64_t j = 0; j < kParameters / kUnits; ++j) {
      unit.parameters.push_back({random.text(),
                                 {static_cast<std::int64_t>(random.below(5000)), 7},
                                 static_cast<DType>(random.below(kParameterDTypes))});
      unit.parameters.back().gathered_in_float8 = random.chance();
    }
  }
  for (std::uint64_t i = 0; i < kGroups; ++i)
    out.process_groups.push_back({random.text(), static_cast<std::uint32_t>(1 + random.below(8)),
                                  static_cast<std::uint32_t>(1 + random.below(8)), random.chance()});
  out.setup = random_program(random, ops_per_program, true, 0);
  std::uint32_t earlier = allocations(out.setup);
  for (std::uint64_t i = 1 + random.below(3); i > 0; --i) {
    out.steps.push_back(random_program(random, ops_per_program, false, earlier));
    earlier = allocations(out.steps.back());
    if (random.chance()) add_kernels(random, out, out.steps.back());
  }
  if (random.chance()) out.cycle = 1 + static_cast<std::uint32_t>(random.below(out.steps.size()));
  if (random.chance())
    for (std::size_t k = 0; k < out.steps.size() + 1; ++k)
      out.recorded.push_back({static_cast<std::uint32_t>(random.below(3)),
                              static_cast<std::uint32_t>(random.below(4096)), random.chance()});
  if (random.chance())
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      out.rank_shapes.push_back({rank, 4, 1 + static_cast<std::uint32_t>(random.below(4096))});
  add_sections(random, out);
  if (random.chance())
    out.measured = Measured{{1.5, 0.1 * static_cast<double>(random.below(100))},
                            {-0.0, 1e-300},
                            out.cycle,
                            static_cast<std::int32_t>(random.below(9)) - 1,
                            random.chance()};
  if (random.chance()) out.recorded_host_ms = {0.1 * static_cast<double>(random.below(100)), 1.0 / 3.0};
  out.has_timing = random.chance();
  out.sm_count = 1 + static_cast<std::uint32_t>(random.below(1000));
  out.gpu = random.text();
  out.torch = random.text();
  add_memory(random, out);
  out.shards_known = random.chance();
  out.optimizer_known = random.chance();
  for (std::uint64_t i = random.below(kParameters); i > 0; --i)
    out.parameters_order.push_back(ParameterId{static_cast<std::uint32_t>(random.below(kParameters))});
  if (out.parameters_order.size() > 1 && random.chance())
    out.optimizer_param_groups = {1, static_cast<std::uint32_t>(out.parameters_order.size()) - 1};
  return out;
}

}  // namespace foreshard::traces::test
