#include "traces/capture/hooks.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "traces/capture/hook_marks.hpp"

namespace foreshard::traces {
namespace {

using Kind = HookMark::Kind;

class HookWalk {
 public:
  explicit HookWalk(const HookMarks& marks) : input_(marks), marks_(marks.marks) {}

  Hooks run() {
    for (at_ = 0; at_ < marks_.size(); ++at_) {
      if (marks_[at_].end) {
        on_end(marks_[at_]);
      } else {
        on_start(marks_[at_]);
      }
    }
    close_step(marks_.empty() ? Nanoseconds{} : marks_.back().time, false);
    add_stats();
    return std::move(out_);
  }

 private:
  // What has been seen of the step that is open.
  struct State {
    bool zero_grad = false;
    bool forward = false;
    bool final_callback = false;
    bool optimizer = false;
    bool optimizer_closed = false;
    bool partial = false;  // the recording began inside it
    bool microbatch_open = false;
    bool forward_open = false;
    bool backward_open = false;
    bool root_entered = false;  // an empty root's forward
    bool casts_root = false;    // the range that comes next, or is open, casts the root's outputs
    std::int32_t microbatch = -1;
    std::optional<Nanoseconds> optimizer_end;
  };

  void put(Hook hook, const HookMark& mark, UnitId unit = {}) {
    out_.places.push_back({hook, unit, mark.time, mark.end, step_index(), std::max(state_.microbatch, 0)});
  }
  [[nodiscard]] std::int32_t step_index() const { return static_cast<std::int32_t>(out_.steps.size()) - 1; }
  [[nodiscard]] bool step_is_over() const { return !open_ || state_.optimizer || state_.final_callback; }

  void open_step(Nanoseconds begin, bool partial) {
    close_step(begin, true);
    StepPlaces step;
    step.index = static_cast<std::int32_t>(out_.steps.size());
    step.begin = begin;
    step.first = out_.places.size();
    out_.steps.push_back(step);
    state_ = {};
    state_.partial = partial;
    open_ = true;
  }

  void close_step(Nanoseconds end, bool next_follows) {
    if (!open_) return;
    StepPlaces& step = out_.steps.back();
    step.count = out_.places.size() - step.first;
    step.end = next_follows ? end : state_.optimizer_end.value_or(end);
    const bool optimizer = state_.optimizer_closed || (next_follows && !state_.optimizer);
    step.cut = state_.partial;
    step.broken = !next_follows && (!state_.forward || !state_.final_callback || state_.backward_open ||
                                    (state_.optimizer && !state_.optimizer_closed));
    step.complete = !state_.partial && state_.forward && state_.final_callback && optimizer;
    if (step.complete && !state_.optimizer) ++without_optimizer_;
    if (!step.complete) ++incomplete_;
    open_ = false;
  }

  // The next mark that is not one of the user's own ranges.
  [[nodiscard]] const HookMark* next_mark(std::size_t from) const {
    for (std::size_t i = from; i < marks_.size(); ++i) {
      if (marks_[i].kind >= Kind::zero_grad && marks_[i].kind != Kind::cast_outputs) return &marks_[i];
    }
    return nullptr;
  }

  // Does a zero_grad come between here and the step's first backward?
  [[nodiscard]] bool zero_grad_follows() const {
    for (std::size_t i = at_; i < marks_.size(); ++i) {
      const Kind kind = marks_[i].kind;
      if (kind == Kind::zero_grad) return true;
      if (kind == Kind::pre_backward || kind == Kind::post_backward || kind == Kind::final_callback) return false;
      if (kind == Kind::optimizer_step && !marks_[i].end) return false;
    }
    return false;
  }

  // Is this end of a post-forward the last of its forward? `casts`: casts of outputs are of it.
  [[nodiscard]] bool forward_is_over(bool casts = false) const {
    for (std::size_t i = at_ + 1; i < marks_.size(); ++i) {
      if (marks_[i].end) continue;
      const Kind kind = marks_[i].kind;
      if (kind == Kind::cast_outputs && casts) return false;
      if (kind == Kind::cast_outputs) continue;
      if (kind == Kind::pre_forward || kind == Kind::post_forward) return false;
      if (kind >= Kind::zero_grad || kind == Kind::user_backward) return true;
    }
    return true;
  }

  // Is the next range of FSDP2's a cast of outputs?
  [[nodiscard]] bool cast_follows() const {
    for (std::size_t i = at_ + 1; i < marks_.size(); ++i)
      if (!marks_[i].end) return marks_[i].kind == Kind::cast_outputs;
    return false;
  }

  void begin_microbatch(const HookMark& mark) {
    if (state_.microbatch_open) return;
    state_.microbatch_open = true;
    ++state_.microbatch;
    put(Hook::microbatch_begin, mark);
  }

  void begin_forward(const HookMark& mark) {
    if (!open_ || state_.optimizer) {
      open_step(mark.time, false);
      if (!zero_grad_follows()) {
        put(Hook::zero_grad, mark);
        state_.zero_grad = true;
      }
    }
    if (state_.forward_open || state_.backward_open) return;
    begin_microbatch(mark);
    put(Hook::forward_begin, mark);
    state_.forward = state_.forward_open = true;
  }

  /// Where a range of FSDP2's ends in forward.
  void end_range_of_forward(const HookMark& mark) {
    const bool casts_root = mark.kind == Kind::cast_outputs && std::exchange(state_.casts_root, false);
    if (casts_root) put(Hook::outputs_cast, mark);
    bool last = casts_root || (mark.kind == Kind::post_forward && !state_.casts_root);
    if (input_.root_is_empty && state_.root_entered) {
      last = forward_is_over(true);
      if (last) put(Hook::post_forward, mark, kRootUnit);
      state_.root_entered = !last;
    }
    if (last && !in_user_forward_ && state_.forward_open && forward_is_over()) end_forward(mark);
  }

  void end_forward(const HookMark& mark) {
    if (!state_.forward_open) return;
    state_.forward_open = false;
    put(Hook::forward_end, mark);
  }

  void begin_backward(const HookMark& mark) {
    if (!open_) open_step(mark.time, true);
    if (state_.backward_open) return;
    end_forward(mark);
    begin_microbatch(mark);
    put(Hook::backward_begin, mark);
    state_.backward_open = true;
  }

  // The next microbatch begins in the same breath; the walk knows only at its forward that there is one.
  void end_backward(const HookMark& mark) {
    if (!state_.backward_open) return;
    put(Hook::backward_end, mark);
    put(Hook::microbatch_end, mark);
    state_.backward_open = state_.microbatch_open = false;
    for (std::size_t i = at_ + 1; i < marks_.size(); ++i) {
      if (marks_[i].end) continue;
      const Kind kind = marks_[i].kind;
      if (kind == Kind::zero_grad || kind == Kind::optimizer_step) return;
      if (kind == Kind::root_pre_forward || kind == Kind::pre_forward) return begin_microbatch(mark);
    }
  }

  void on_start(const HookMark& mark);
  void on_end(const HookMark& mark);
  void on_zero_grad(const HookMark& mark);
  void add_stats();

  const HookMarks& input_;
  const std::vector<HookMark>& marks_;
  std::size_t at_ = 0;
  Hooks out_;
  State state_;
  bool open_ = false;
  bool in_final_ = false;
  bool in_user_forward_ = false;
  bool in_user_backward_ = false;
  std::optional<Nanoseconds> user_begin_;
  std::uint64_t incomplete_ = 0;
  std::uint64_t without_optimizer_ = 0;
  std::uint64_t ignored_zero_grads_ = 0;
};

void HookWalk::on_zero_grad(const HookMark& mark) {
  if (step_is_over()) open_step(user_begin_.value_or(mark.time), false);
  if (state_.zero_grad) {
    ++ignored_zero_grads_;
    return;
  }
  state_.zero_grad = true;
  put(Hook::zero_grad, mark);
}

void HookWalk::on_start(const HookMark& mark) {
  switch (mark.kind) {
    case Kind::user_begin:
      if (!user_begin_) user_begin_ = mark.time;
      return;
    case Kind::user_forward:
      in_user_forward_ = true;
      return begin_forward(mark);
    case Kind::user_backward:
      in_user_backward_ = true;
      return begin_backward(mark);
    case Kind::user_optimizer:
      return;
    case Kind::zero_grad:
      return on_zero_grad(mark);
    case Kind::root_pre_forward:
      begin_forward(mark);
      if (!input_.root_is_empty || state_.backward_open) return;
      state_.root_entered = true;
      return put(Hook::pre_forward, mark, kRootUnit);
    case Kind::cast_outputs:
      return;
    case Kind::pre_forward:
      if (!open_ && input_.has_root_pre_forward) open_step(mark.time, true);
      if (!state_.partial) begin_forward(mark);
      return put(Hook::pre_forward, mark, mark.unit);
    case Kind::post_forward:
      if (!open_) open_step(mark.time, true);
      state_.casts_root = mark.unit == kRootUnit && !state_.backward_open && cast_follows();
      return put(Hook::post_forward, mark, mark.unit);
    case Kind::pre_backward:
      begin_backward(mark);
      return put(Hook::pre_backward, mark, mark.unit);
    case Kind::post_backward:
      if (in_final_) return;
      begin_backward(mark);
      return put(Hook::post_backward, mark, mark.unit);
    case Kind::final_callback:
      begin_backward(mark);
      in_final_ = state_.final_callback = true;
      return put(Hook::backward_final, mark);
    case Kind::optimizer_step:
      if (!open_) open_step(mark.time, true);
      if (state_.optimizer) return;
      state_.optimizer = true;
      put(Hook::optimizer_begin, mark);
      return put(Hook::optimizer_step, mark);
  }
}

void HookWalk::on_end(const HookMark& mark) {
  switch (mark.kind) {
    case Kind::user_begin:
      user_begin_.reset();
      return;
    case Kind::user_forward:
      in_user_forward_ = false;
      return end_forward(mark);
    case Kind::user_backward:
      in_user_backward_ = false;
      return end_backward(mark);
    case Kind::user_optimizer:
      state_.optimizer_end = mark.time;
      return;
    case Kind::zero_grad: {
      const HookMark* next = next_mark(at_ + 1);
      if (!state_.forward && (next == nullptr || next->kind != Kind::zero_grad)) begin_microbatch(mark);
      return;
    }
    case Kind::post_forward:
    case Kind::cast_outputs:
      return end_range_of_forward(mark);
    case Kind::final_callback:
      in_final_ = false;
      if (!in_user_backward_) end_backward(mark);
      return;
    case Kind::optimizer_step: {
      const HookMark* next = next_mark(at_ + 1);
      if (state_.optimizer_closed || (next != nullptr && next->kind == Kind::optimizer_step)) return;
      state_.optimizer_closed = true;
      state_.optimizer_end = mark.time;
      return put(Hook::optimizer_end, mark);
    }
    default:
      return;
  }
}

void HookWalk::add_stats() {
  const auto add = [&](const char* name, ImportStat::Severity severity, std::uint64_t count, const char* text) {
    if (count > 0) out_.stats.push_back({name, severity, count, text});
  };
  add("unknown_fsdp_ranges", ImportStat::Severity::info, input_.unknown,
      "FSDP:: annotations that are not PyTorch 2.11's; ignored.");
  add("incomplete_steps", ImportStat::Severity::info, incomplete_, "Steps recorded only in part; not used.");
  add("steps_without_optimizer_range", ImportStat::Severity::info, without_optimizer_,
      "Steps without an Optimizer.step range: the optimizer's work counts as the user's own.");
  add("repeated_zero_grads", ImportStat::Severity::info, ignored_zero_grads_,
      "zero_grad ranges beside another of the same step; taken together with it.");
}

}  // namespace

Result<Hooks> find_hooks(std::span<const Range> ranges, std::span<const Unit> units) {
  auto marks = hook_marks(ranges, units);
  FORESHARD_TRY(marks);
  return HookWalk(*marks).run();
}

}  // namespace foreshard::traces
