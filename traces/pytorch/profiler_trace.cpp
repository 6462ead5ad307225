#include "traces/pytorch/profiler_trace.hpp"

#include <fmt/format.h>

#include "core/base/check_context.hpp"
#include "traces/pytorch/json_pieces.hpp"
#include "traces/pytorch/kineto_event.hpp"
#include "traces/pytorch/trace_builder.hpp"
#include "traces/pytorch/trace_header.hpp"

namespace foreshard::traces {

namespace {

constexpr std::string_view kHowToRecord =
    "record with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) and "
    "export_chrome_trace()";

void apply_header(ProfilerTrace& trace, TraceHeader header) {
  trace.origin_ns += header.base_ns;
  trace.rank = header.rank;
  trace.world_size = header.world_size;
  trace.devices = std::move(header.devices);
  trace.run.info.kind = RunKind::imported;
  trace.run.info.nccl = std::move(header.nccl);
  for (const TraceDevice& device : trace.devices) {
    if (device.id != trace.device) continue;
    trace.run.info.gpu = device.name;
    trace.run.info.sm_count = device.sm_count;
  }
}

}  // namespace

Result<ProfilerTrace> read_profiler_trace(const std::string& path, const TraceOptions& options) {
  auto source = ByteSource::open(path);
  FORESHARD_TRY(source);
  return read_profiler_trace(*source, options);
}

Result<ProfilerTrace> read_profiler_trace(ByteSource& source, const TraceOptions& options) {
  const CheckContext context = reading(source.name());
  ProfilerTrace trace;
  TraceHeader header;
  TraceBuilder builder(options, trace);
  JsonPieces pieces(source);
  KinetoEventParser parser;
  for (;;) {
    auto piece = pieces.next();
    FORESHARD_TRY(piece);
    if (!*piece) break;
    if (!(*piece)->is_event) {
      FORESHARD_TRY(read_member(header, **piece, source.name()));
      continue;
    }
    auto event = parser.parse(**piece, source.name());
    FORESHARD_TRY(event);
    builder.add(*event);
  }
  if (!pieces.saw_events()) {
    if (header.is_snapshot)
      return fail(ErrorKind::input, "this is a memory snapshot, not a profiler trace", source.name(),
                  "give it as the snapshot");
    return fail(ErrorKind::input, "this JSON is not a profiler trace: it has no list 'traceEvents'", source.name(),
                std::string(kHowToRecord));
  }
  if (!builder.has_device_ops())
    return fail(ErrorKind::input, "the trace holds no GPU events: no kernels, copies or memsets", source.name(),
                std::string(kHowToRecord));
  builder.finish(header.rank);
  if (trace.run.device_ops.empty())
    return fail(ErrorKind::usage, fmt::format("the trace holds no GPU events of device {}", options.device.value_or(0)),
                source.name(), "leave the device out to take the one with the most work");
  apply_header(trace, std::move(header));
  return trace;
}

}  // namespace foreshard::traces
