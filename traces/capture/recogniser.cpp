#include "traces/capture/recogniser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/workload/workload_names.hpp"

namespace foreshard::traces {
namespace {

std::string_view name_of(Buffer buffer) {
  switch (buffer) {
    case Buffer::flat_cast:
      return "flat cast buffer";
    case Buffer::offload_input:
      return "offloaded shard";
    case Buffer::offload_cast:
      return "cast of an offloaded shard";
    case Buffer::gather:
      return "all-gather block";
    case Buffer::unsharded:
      return "unsharded parameter";
    case Buffer::split_metadata:
      return "copy-out metadata";
    case Buffer::clone:
      return "post-forward clone";
    case Buffer::reduce_input:
      return "reduce-scatter input";
    case Buffer::chunk_cat_metadata:
      return "copy-in metadata";
    case Buffer::reduce_output:
      return "reduce-scatter output";
    case Buffer::cast_output:
      return "gradient shard cast back";
    case Buffer::accumulated_gradient:
      return "accumulated gradient";
    case Buffer::symmetric_array:
      return "rendezvous array";
    case Buffer::contiguous:
      return "parameter-contiguous block";
    case Buffer::kept_input:
      return "all-gather input";
    case Buffer::float8_amaxes:
      return "largest elements of float8 weights";
    case Buffer::float8_scales:
      return "scales of float8 weights";
    case Buffer::gathered_chunks:
      return "chunks of an unsharded parameter";
    case Buffer::gradient_chunks:
      return "chunks of a gradient";
    case Buffer::divided_input:
      return "divided reduce-scatter input";
  }
  return "buffer";
}

/// Thrown when a request does not match; never leaves recognise().
struct Mismatch {
  std::string expected;
};

class Recogniser final : public FsdpBackend {
 public:
  explicit Recogniser(const RecogniserInput& input)
      : in_(input), fsdp_(input.settings, input.plans, *this), seen_backward_(input.units.size()) {
    result_.tags.resize(input.events.size());
    for (const Unit& unit : input.units)
      for (const Parameter& parameter : unit.parameters) requires_grad_.push_back(parameter.requires_grad);
    for (const UnitPlan& unit : input.plans)
      for (const ParamGroupPlan& group : unit.groups)
        for (const ParameterPlan& parameter : group.parameters) gradient_bytes_.push_back(parameter.gradient);
  }

  Result<Recognition> run();

  // FsdpBackend
  Allocation allocate(const BufferRequest& request) override;
  void free(BufferRef buffer) override;
  void record_stream(BufferRef, StreamRole) override {}
  std::optional<BufferRef> gradient(ParameterId parameter) override;
  EventId record_event(StreamRole) override { return EventId{0}; }
  void wait_event(StreamRole, EventId) override {}
  void synchronize_event(EventId) override {}
  void begin_section(Section, ParamGroupId, Pass) override {}
  void issue(const FsdpOp& op, StreamRole) override;
  void end_section() override {}

 private:
  struct KnownBuffer {
    std::uint32_t allocation = CaptureEvent::kNone;  ///< index of the request; of a gradient it shows when it is freed
    ParameterId gradient_of;
  };
  [[nodiscard]] UnitId unit_of(ParameterId parameter) const {
    std::uint32_t end = 0;
    for (std::uint32_t u = 0; u < in_.units.size(); ++u) {
      end += static_cast<std::uint32_t>(in_.units[u].parameters.size());
      if (parameter.value < end) return UnitId{u};
    }
    return kRootUnit;
  }
  BufferRef add(std::uint32_t allocation, ParameterId gradient_of);
  const CaptureEvent& next(const std::string& expected);
  void free_gradient(ParameterId parameter);
  void check_stream(StreamRole role, std::uint64_t handle, const std::string& expected);
  void skip();
  void run_hook(const HookPlace& place);
  /// The hook behind one of the places.
  [[nodiscard]] std::optional<Hook> hook_after(const HookPlace& place) const;
  FreedGradients run_zero_grad();
  [[nodiscard]] Error mismatch_error(const Mismatch& mismatch, const HookPlace& place) const;

  const RecogniserInput& in_;
  FullyShard fsdp_;
  Recognition result_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> reduced_;  // how often in this step, by unit and group
  std::uint32_t position_ = 0;                                      // next request to be matched
  std::vector<KnownBuffer> buffers_;                                // by BufferRef
  std::vector<Bytes> gradient_bytes_;                               // by parameter
  std::vector<bool> requires_grad_;                                 // by parameter
  std::vector<bool> seen_backward_;                                 // units whose gradients exist in this microbatch
  std::map<std::uint32_t, UnitId> sharded_gradients_;               // live flat gradient blocks, by allocation
};

const CaptureEvent& Recogniser::next(const std::string& expected) {
  if (position_ >= in_.events.size()) throw Mismatch{expected};
  return in_.events[position_];
}

void Recogniser::check_stream(StreamRole role, std::uint64_t handle, const std::string& expected) {
  if (role == StreamRole::compute ? handle != 0 : handle == 0) throw Mismatch{expected};
  const auto [it, fresh] = result_.streams.emplace(role, handle);
  if (!fresh && it->second != handle) throw Mismatch{expected};
}

BufferRef Recogniser::add(std::uint32_t allocation, ParameterId gradient_of) {
  buffers_.push_back({allocation, gradient_of});
  return BufferRef{static_cast<std::uint32_t>(buffers_.size() - 1)};
}

Allocation Recogniser::allocate(const BufferRequest& request) {
  if (request.bytes == 0) return {};
  const UnitId unit = request.group.unit;
  const auto expected = [&] {
    return fmt::format("allocation of {} bytes ({} of unit \"{}\")", request.bytes, name_of(request.buffer),
                       in_.units[unit.value].name);
  };
  if (position_ >= in_.events.size() || !in_.events[position_].allocates || in_.events[position_].size != request.bytes)
    throw Mismatch{expected()};
  const CaptureEvent& event = in_.events[position_];
  check_stream(request.stream, event.stream, expected());
  result_.tags[position_] = {Owner::fsdp, request.buffer, unit, request.parameter};
  if (request.buffer == Buffer::reduce_output || request.buffer == Buffer::cast_output)
    sharded_gradients_[position_] = unit;
  return {add(position_++, {}), event.new_segment};
}

/// A step's first reduction of a group finds no gradients but those of the step before.
void Recogniser::issue(const FsdpOp& op, StreamRole) {
  const ParamGroupId group = group_of(op);
  int& reduced = reduced_[{group.unit.value, group.index}];
  if (std::holds_alternative<ReduceScatter>(op) || std::holds_alternative<CopyReduced>(op)) ++reduced;
  if (std::holds_alternative<AddReduced>(op) && reduced == 1) result_.keeps_gradients = true;
}

void Recogniser::free(BufferRef buffer) {
  if (!buffer.valid()) return;
  const KnownBuffer& known = buffers_[buffer.value];
  if (known.gradient_of.valid()) {
    free_gradient(known.gradient_of);
    return;
  }
  const std::uint32_t allocation = known.allocation;
  const EventTag tag = result_.tags[allocation];
  const CaptureEvent* event = position_ < in_.events.size() ? &in_.events[position_] : nullptr;
  if (event == nullptr || event->allocates || event->partner != allocation)
    throw Mismatch{fmt::format("free of {:#x}, {} bytes ({} of unit \"{}\")", in_.events[allocation].address,
                               in_.events[allocation].size, name_of(tag.buffer), in_.units[tag.unit.value].name)};
  sharded_gradients_.erase(allocation);
  result_.tags[position_++] = tag;
}

/// A unit whose backward has begun leaves a gradient for each of its parameters that is trained.
std::optional<BufferRef> Recogniser::gradient(ParameterId parameter) {
  if (!requires_grad_[parameter.value] || !seen_backward_[unit_of(parameter).value]) return std::nullopt;
  return add(CaptureEvent::kNone, parameter);
}

void Recogniser::free_gradient(ParameterId parameter) {
  const UnitId unit = unit_of(parameter);
  const Bytes bytes = gradient_bytes_[parameter.value];
  if (bytes == 0) return;
  const std::string expected =
      fmt::format("free of a gradient of {} bytes of unit \"{}\"", bytes, in_.units[unit.value].name);
  const CaptureEvent& event = next(expected);
  const bool fits = !event.allocates && event.partner != CaptureEvent::kNone && event.size == bytes &&
                    event.stream == 0 && result_.tags[event.partner].owner == Owner::user;
  if (!fits) throw Mismatch{expected};
  const EventTag tag{Owner::gradient, Buffer::gather, unit, parameter};
  result_.tags[event.partner] = tag;
  result_.tags[position_++] = tag;
}

/// Gradient blocks are freed in the order of model.parameters(): read off the recording.
FreedGradients Recogniser::run_zero_grad() {
  std::vector<UnitId> order;
  for (std::uint32_t i = position_; i < in_.events.size() && !in_.events[i].allocates; ++i) {
    const auto it = sharded_gradients_.find(in_.events[i].partner);
    if (it == sharded_gradients_.end()) break;
    // A unit of several parameter groups has a block of each, one behind the other.
    if (order.empty() || order.back() != it->second) order.push_back(it->second);
  }
  fsdp_.zero_grad(order);
  result_.frees_gradients |= !order.empty();
  const bool all = sharded_gradients_.empty();
  if (all && !order.empty() && result_.zero_grad_order.empty()) result_.zero_grad_order = order;
  return {std::move(order), all};
}

std::optional<Hook> Recogniser::hook_after(const HookPlace& place) const {
  const HookPlace* next = &place + 1;
  return next == in_.hooks.places.data() + in_.hooks.places.size() ? std::nullopt : std::optional(next->hook);
}

/// Passes a request of the user's program by, or a zero_grad that no range marks.
void Recogniser::skip() {
  const CaptureEvent& event = in_.events[position_];
  if (event.allocates || !sharded_gradients_.contains(event.partner)) {
    ++position_;
    return;
  }
  const std::uint32_t first = position_;
  result_.unmarked_zero_grads.push_back({first, run_zero_grad()});
}

void Recogniser::run_hook(const HookPlace& place) {
  switch (place.hook) {
    case Hook::zero_grad:
      result_.hooks.back().freed = run_zero_grad();
      break;
    case Hook::microbatch_begin: {
      const bool last = static_cast<std::uint32_t>(place.microbatch) + 1 >= in_.settings.accumulate;
      fsdp_.set_requires_gradient_sync(last || in_.settings.accumulate_with_sync);
      std::fill(seen_backward_.begin(), seen_backward_.end(), false);
      break;
    }
    case Hook::pre_forward:
      fsdp_.pre_forward(place.unit);
      break;
    case Hook::post_forward:
      fsdp_.post_forward(place.unit, hook_after(place) == Hook::outputs_cast);
      break;
    case Hook::outputs_cast:
      fsdp_.outputs_cast();
      break;
    case Hook::pre_backward:
      seen_backward_[place.unit.value] = true;
      fsdp_.pre_backward(place.unit);
      break;
    case Hook::post_backward:
      fsdp_.post_backward(place.unit);
      break;
    case Hook::backward_final:
      fsdp_.backward_final();
      break;
    default:
      break;
  }
}

Error Recogniser::mismatch_error(const Mismatch& mismatch, const HookPlace& place) const {
  std::string found = "the end of the recording";
  if (position_ < in_.events.size()) {
    const CaptureEvent& e = in_.events[position_];
    found = fmt::format("{} of {} bytes at {:#x} on stream {:#x}", e.allocates ? "an allocation" : "a free", e.size,
                        e.address, e.stream);
  }
  const std::string unit = place.unit.valid() ? in_.units[place.unit.value].name : std::string();
  return {ErrorKind::mismatch, fmt::format("FSDP2's rules expect {}, the recording has {}", mismatch.expected, found),
          fmt::format("snapshot request {} (step {}, {:.3f} ms, hook {} of unit \"{}\")", position_, place.step,
                      place.time.ms(), name(place.hook), unit),
          "check the about file: settings, units and their parameters must be those of the recorded run; "
          "--no-workload imports it for explain, view and compare alone"};
}

Result<Recognition> Recogniser::run() {
  for (const HookPlace& place : in_.hooks.places) {
    const auto before = [&](const CaptureEvent& e) {
      return place.at_end ? e.time <= place.time : e.time < place.time;
    };
    try {
      while (position_ < in_.events.size() && before(in_.events[position_])) skip();
      result_.hooks.push_back({place, {}, position_});
      if (place.hook == Hook::microbatch_begin && place.microbatch == 0) reduced_.clear();
      run_hook(place);
    } catch (const Mismatch& mismatch) {
      return tl::unexpected(mismatch_error(mismatch, place));
    }
  }
  // Behind the last place: the recording may end with a zero_grad that no range marks.
  if (in_.hooks.places.empty()) return std::move(result_);
  try {
    while (position_ < in_.events.size()) skip();
  } catch (const Mismatch& mismatch) {
    return tl::unexpected(mismatch_error(mismatch, in_.hooks.places.back()));
  }
  return std::move(result_);
}

}  // namespace

Result<Recognition> recognise(const RecogniserInput& input) {
  return Recogniser(input).run();
}

}  // namespace foreshard::traces
