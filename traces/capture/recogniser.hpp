// Finds FSDP2's own requests in a recorded process: runs the same state machine that plans a step
// (core/fsdp/fully_shard.hpp) at the recorded hook places and matches what it asks for, one by one,
// against the recording. What is left over is the user's program (fsdp2 semantics 13.1).
//
// Deterministic. A request that does not match ends recognition with an Error that says what was
// expected, what was found, and where.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/fsdp/fsdp_backend.hpp"
#include "core/fsdp/fully_shard.hpp"
#include "traces/capture/capture_events.hpp"
#include "traces/capture/hooks.hpp"

namespace foreshard::traces {

/// To whom a request belongs.
enum class Owner : std::uint8_t { user = 0, fsdp = 1, gradient = 2, optimizer = 3 };

/// What recognition found out about one request.
struct EventTag {
  Owner owner = Owner::user;
  Buffer buffer = Buffer::gather;  ///< of FSDP's
  UnitId unit;
  ParameterId parameter;  ///< of gradients, and of FSDP's buffers of one parameter
};

/// What a zero_grad frees.
struct FreedGradients {
  std::vector<UnitId> units;  ///< whose sharded gradients it frees, in order
  bool all = true;            ///< no other unit has any
};

/// A place in the merged sequence: `events` [begin, end) are left-over requests before this hook, which
/// is followed by FSDP's own.
struct RecognisedHook {
  HookPlace place;
  FreedGradients freed;           ///< of zero_grad
  std::uint32_t first_event = 0;  ///< index of the first request at or after the hook
};

/// Gradients freed outside Optimizer.zero_grad's range: model.zero_grad() (Hugging Face's Trainer) has none.
struct UnmarkedZeroGrad {
  std::uint32_t first_event = 0;  ///< index of the first free
  FreedGradients freed;
};

struct Recognition {
  std::vector<EventTag> tags;                         ///< by request
  std::vector<RecognisedHook> hooks;                  ///< in order
  std::vector<UnitId> zero_grad_order;                ///< of the first zero_grad that frees all; empty when never seen
  std::vector<UnmarkedZeroGrad> unmarked_zero_grads;  ///< in order
  bool frees_gradients = false;                       ///< some zero_grad does
  bool keeps_gradients = false;  ///< a step's first reduction of some group is added to gradients of the step before
  std::map<StreamRole, std::uint64_t> streams;  ///< handles of those that FSDP2 allocated on
};

struct RecogniserInput {
  const std::vector<CaptureEvent>& events;
  const Hooks& hooks;
  const Settings& settings;
  const std::vector<Unit>& units;
  const std::vector<UnitPlan>& plans;
};

[[nodiscard]] Result<Recognition> recognise(const RecogniserInput& input);

}  // namespace foreshard::traces
