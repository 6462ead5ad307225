#include <array>

#include "traces/store/schema.hpp"

namespace foreshard::traces {
namespace {

constexpr auto kInteger = ColumnType::integer;
constexpr auto kText = ColumnType::text;

constexpr std::array kSlices{
    Column{"source", kText, false, "`device_op` or `host_op`: the table that `id` is of."},
    Column{"id", kInteger, false, "Row of that table."},
    Column{"ts", kInteger, false, "Start in ns."},
    Column{"dur", kInteger, false, "Length in ns."},
    Column{"name", kText, true, "What ran."},
    Column{"track", kText, false, "Name of the stream, or `thread N`."},
    Column{"category", kText, false, "Kernel class, kind of collective, or kind of op."},
};
constexpr std::string_view kSlicesSelect = R"(SELECT 'device_op' AS source, d.id AS id, d.ts AS ts, d.dur AS dur,
       l.text AS name, coalesce(s.name, 'stream ' || d.stream, 'no stream') AS track,
       coalesce(d.collective, d.kernel_class, d.kind) AS category
FROM device_op d
LEFT JOIN label l ON l.id = d.label
LEFT JOIN stream s ON s.stream = d.stream
UNION ALL
SELECT 'host_op', h.id, h.ts, h.dur, l.text, 'thread ' || h.thread, h.kind
FROM host_op h
LEFT JOIN label l ON l.id = h.label)";

constexpr std::array kMemoryChange{
    Column{"id", kInteger, false, "Row of `allocator_event`."},
    Column{"ts", kInteger, false, "Time in ns."},
    Column{"action", kText, false, "What the allocator did."},
    Column{"block", kInteger, true, "The block it concerns."},
    Column{"category", kText, true, "What that block is for; NULL for segments and blocks never seen allocated."},
    Column{"requested", kInteger, false, "Change of `requested_bytes`."},
    Column{"allocated", kInteger, false, "Change of `allocated_bytes`."},
    Column{"active", kInteger, false, "Change of `active_bytes`."},
    Column{"reserved", kInteger, false, "Change of `reserved_bytes`."},
};
// Which statistic moves at which event: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11, malloc(), free()
// (allocated), free_block() (active and requested), alloc_block() and release_block() (reserved). 512 is
// kMinBlockSize, the rounding of a request whose block's size is not known.
constexpr std::string_view kMemoryChangeSelect = R"(SELECT id, ts, action, block, category,
       CASE action WHEN 'alloc' THEN requested WHEN 'free_completed' THEN -requested ELSE 0 END AS requested,
       CASE action WHEN 'alloc' THEN size WHEN 'free_requested' THEN -size ELSE 0 END AS allocated,
       CASE action WHEN 'alloc' THEN size WHEN 'free_completed' THEN -size ELSE 0 END AS active,
       CASE WHEN action IN ('segment_alloc', 'segment_map') THEN event_size
            WHEN action IN ('segment_free', 'segment_unmap') THEN -event_size ELSE 0 END AS reserved
FROM (SELECT e.id AS id, e.ts AS ts, e.action AS action, e.block AS block, b.category AS category,
             e.size AS event_size, coalesce(b.requested, e.size) AS requested,
             coalesce(b.size, (coalesce(b.requested, e.size) + 511) / 512 * 512) AS size
      FROM allocator_event e LEFT JOIN block b ON b.id = e.block))";

constexpr std::array kMemoryTimeline{
    Column{"id", kInteger, false, "Row of `allocator_event`."},
    Column{"ts", kInteger, false, "Time in ns."},
    Column{"action", kText, false, "What the allocator did."},
    Column{"requested", kInteger, false, "`requested_bytes` after it."},
    Column{"allocated", kInteger, false, "`allocated_bytes` after it."},
    Column{"active", kInteger, false, "`active_bytes` after it."},
    Column{"reserved", kInteger, false, "`reserved_bytes` after it."},
};
constexpr std::string_view kMemoryTimelineSelect = R"(WITH change AS MATERIALIZED (SELECT * FROM memory_change),
final AS (SELECT coalesce(sum(CASE WHEN state <> 'inactive' THEN requested_size END), 0) AS requested,
                 coalesce(sum(CASE WHEN state = 'live' THEN size END), 0) AS allocated,
                 coalesce(sum(CASE WHEN state <> 'inactive' THEN size END), 0) AS active,
                 (SELECT coalesce(sum(total_size), 0) FROM segment) AS reserved,
                 EXISTS (SELECT 1 FROM segment) AS known
          FROM segment_block),
moved AS (SELECT sum(requested) AS requested, sum(allocated) AS allocated, sum(active) AS active,
                 sum(reserved) AS reserved FROM change),
start AS MATERIALIZED (
  SELECT CASE WHEN known THEN f.requested - m.requested ELSE 0 END AS requested,
         CASE WHEN known THEN f.allocated - m.allocated ELSE 0 END AS allocated,
         CASE WHEN known THEN f.active - m.active ELSE 0 END AS active,
         CASE WHEN known THEN f.reserved - m.reserved ELSE 0 END AS reserved
  FROM final f, moved m)
SELECT c.id AS id, c.ts AS ts, c.action AS action,
       s.requested + sum(c.requested) OVER w AS requested, s.allocated + sum(c.allocated) OVER w AS allocated,
       s.active + sum(c.active) OVER w AS active, s.reserved + sum(c.reserved) OVER w AS reserved
FROM change c, start s
WINDOW w AS (ORDER BY c.id ROWS UNBOUNDED PRECEDING))";

constexpr std::array kMemoryByCategory{
    Column{"category", kText, false, "What the memory is for."},
    Column{"id", kInteger, false, "Row of `allocator_event`."},
    Column{"ts", kInteger, false, "Time in ns."},
    Column{"delta", kInteger, false, "Change of the category's allocated bytes."},
    Column{"bytes", kInteger, false, "The category's allocated bytes after it."},
};
constexpr std::string_view kMemoryByCategorySelect = R"(SELECT category, id, ts, allocated AS delta,
       sum(allocated) OVER (PARTITION BY category ORDER BY id ROWS UNBOUNDED PRECEDING) AS bytes
FROM memory_change
WHERE category IS NOT NULL AND allocated <> 0)";

constexpr std::array kPeakByCategory{
    Column{"recording", kText, false, "The recording of the step."},
    Column{"step", kInteger, false, "The step."},
    Column{"ts", kInteger, false, "When the peak was first reached, ns."},
    Column{"category", kText, false, "What the memory is for; `before_recording` for blocks never seen allocated."},
    Column{"bytes", kInteger, false, "The category's allocated bytes at that moment."},
};
constexpr std::string_view kPeakByCategorySelect = R"(WITH timeline AS MATERIALIZED (
  SELECT id, ts, allocated FROM memory_timeline),
span AS MATERIALIZED (
  SELECT s.id AS row, s.recording AS recording, s.step AS step,
         coalesce((SELECT max(t.id) FROM timeline t WHERE t.ts < s.ts), 0) AS first,
         (SELECT max(t.id) FROM timeline t WHERE t.ts < s.ts + s.dur) AS last
  FROM step s WHERE s.recording <> 'trace'),
peak AS MATERIALIZED (
  SELECT row, recording, step, id, ts, allocated
  FROM (SELECT span.*, t.id AS id, t.ts AS ts, t.allocated AS allocated,
               row_number() OVER (PARTITION BY span.row ORDER BY t.allocated DESC, t.id) AS place
        FROM span JOIN timeline t ON t.id BETWEEN span.first AND span.last)
  WHERE place = 1),
change AS MATERIALIZED (
  SELECT id, category, allocated FROM memory_change WHERE category IS NOT NULL AND allocated <> 0),
part AS MATERIALIZED (
  SELECT p.row AS row, c.category AS category, sum(c.allocated) AS bytes
  FROM peak p JOIN change c ON c.id <= p.id GROUP BY p.row, c.category)
SELECT p.recording AS recording, p.step AS step, p.ts AS ts, q.category AS category, q.bytes AS bytes
FROM peak p JOIN (
  SELECT row, category, bytes FROM part WHERE bytes <> 0
  UNION ALL
  SELECT p2.row, 'before_recording', p2.allocated - coalesce(sum(part.bytes), 0) AS rest
  FROM peak p2 LEFT JOIN part ON part.row = p2.row GROUP BY p2.row HAVING rest <> 0) q ON q.row = p.row
ORDER BY p.row, q.bytes DESC, q.category)";

constexpr std::array kCollective{
    Column{"id", kInteger, false, "Row of `device_op`."},
    Column{"ts", kInteger, false, "Start in ns."},
    Column{"dur", kInteger, false, "Length in ns."},
    Column{"name", kText, true, "What ran."},
    Column{"collective", kText, false,
           "`all_gather`, `reduce_scatter`, `all_reduce`, `all_to_all`, `broadcast`, `reduce` or `send_recv`."},
    Column{"transport", kText, false, "How it moved its bytes."},
    Column{"communicator", kInteger, true, "Its communicator."},
    Column{"bytes", kInteger, false, "The whole buffer, nccl-tests' size."},
    Column{"unit", kInteger, true, "The FSDP unit it belongs to."},
    Column{"stream", kInteger, true, "The stream it ran on."},
};
constexpr std::string_view kCollectiveSelect = R"(SELECT d.id AS id, d.ts AS ts, d.dur AS dur, l.text AS name,
       d.collective AS collective, d.transport AS transport, d.communicator AS communicator,
       d.bytes AS bytes, d.unit AS unit, d.stream AS stream
FROM device_op d LEFT JOIN label l ON l.id = d.label
WHERE d.kind = 'collective')";

constexpr std::array kExposedCommunication{
    Column{"id", kInteger, false, "Row of `device_op`."},
    Column{"ts", kInteger, false, "Start in ns."},
    Column{"dur", kInteger, false, "Length in ns."},
    Column{"name", kText, true, "What ran."},
    Column{"collective", kText, false,
           "`all_gather`, `reduce_scatter`, `all_reduce`, `all_to_all`, `broadcast`, `reduce` or `send_recv`."},
    Column{"unit", kInteger, true, "The FSDP unit it belongs to."},
    Column{"exposed", kInteger, false, "Nanoseconds of it in which the compute stream ran no work."},
};
// Ops of one stream follow one another, so those that overlap an interval begin with the last one that
// started before it: the index answers without a scan.
constexpr std::string_view kExposedCommunicationSelect =
    R"(SELECT c.id AS id, c.ts AS ts, c.dur AS dur, c.name AS name, c.collective AS collective, c.unit AS unit,
       max(0, c.dur - coalesce(
         (SELECT sum(max(0, min(c.ts + c.dur, d.ts + d.dur) - max(c.ts, d.ts)))
          FROM device_op d
          WHERE d.stream = 0 AND d.kind <> 'collective' AND d.ts < c.ts + c.dur AND d.ts >= coalesce(
            (SELECT max(p.ts) FROM device_op p WHERE p.stream = 0 AND p.ts <= c.ts), c.ts)), 0)) AS exposed
FROM collective c)";

constexpr std::array kStepSummary{
    Column{"recording", kText, false, "The recording of the step."},
    Column{"step", kInteger, false, "The step."},
    Column{"ts", kInteger, false,
           "Start on the compute stream, ns: where the step before ended; of a first step its start in host time."},
    Column{"dur", kInteger, false,
           "Length on the compute stream, ns, as `plan`, `compare` and `explain --time` report it; in host time where "
           "the end there is not known."},
    Column{"compute_busy", kInteger, false, "Nanoseconds of work on the compute stream."},
    Column{"communication_busy", kInteger, false, "Nanoseconds in which at least one collective ran."},
    Column{"exposed", kInteger, false, "Those of them in which the compute stream ran no work."},
    Column{"host_ts", kInteger, false, "Start in host time, ns."},
    Column{"host_dur", kInteger, false, "Length in host time, ns."},
    Column{"name", kText, true, "What the recording calls the step: `ProfilerStep#3` of torch.profiler's schedule."},
};
constexpr std::string_view kStepSummarySelect = R"(WITH span AS MATERIALIZED (
  SELECT s.id AS row, s.recording AS recording, s.step AS step, s.ts AS host_ts, s.dur AS host_dur,
         CASE WHEN s.device_end IS NULL THEN s.ts
              ELSE min(s.device_end, coalesce(p.device_end, s.ts)) END AS ts,
         coalesce(s.device_end, s.ts + s.dur) AS te
  FROM step s LEFT JOIN step p ON p.recording = s.recording AND p.step = s.step - 1
  WHERE s.recording <> 'snapshot'),
work AS MATERIALIZED (
  SELECT s.row AS row, d.id AS id, d.kind AS kind, d.stream AS stream,
         max(d.ts, s.ts) AS ts, min(d.ts + d.dur, s.te) AS te
  FROM span s JOIN device_op d ON d.ts < s.te AND d.ts + d.dur > s.ts),
compute AS (SELECT row, sum(te - ts) AS busy FROM work WHERE stream = 0 AND kind <> 'collective' GROUP BY row),
gap AS (
  SELECT row, id, ts, te, coalesce(ts > max(te) OVER (PARTITION BY row ORDER BY ts, id
                                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 1) AS opens
  FROM work WHERE kind = 'collective'),
island AS (SELECT row, ts, te, sum(opens) OVER (PARTITION BY row ORDER BY ts, id ROWS UNBOUNDED PRECEDING) AS number
           FROM gap),
busy AS MATERIALIZED (SELECT row, min(ts) AS ts, max(te) AS te FROM island GROUP BY row, number),
communication AS (
  SELECT b.row AS row, sum(b.te - b.ts) AS busy, sum(max(0, b.te - b.ts - coalesce(
           (SELECT sum(max(0, min(b.te, d.ts + d.dur) - max(b.ts, d.ts)))
            FROM device_op d
            WHERE d.stream = 0 AND d.kind <> 'collective' AND d.ts < b.te AND d.ts >= coalesce(
              (SELECT max(p.ts) FROM device_op p WHERE p.stream = 0 AND p.ts <= b.ts), b.ts)), 0))) AS exposed
  FROM busy b GROUP BY b.row),
named AS MATERIALIZED (SELECT h.ts AS ts, h.ts + h.dur AS te, l.text AS name
                       FROM label l JOIN host_op h ON h.label = l.id
                       WHERE h.kind = 'annotation' AND l.text GLOB 'ProfilerStep#*')
SELECT s.recording AS recording, s.step AS step, s.ts AS ts, s.te - s.ts AS dur,
       coalesce(compute.busy, 0) AS compute_busy, coalesce(communication.busy, 0) AS communication_busy,
       coalesce(communication.exposed, 0) AS exposed, s.host_ts AS host_ts, s.host_dur AS host_dur,
       (SELECT min(n.name) FROM named n WHERE n.ts <= s.host_ts AND n.te > s.host_ts) AS name
FROM span s
LEFT JOIN compute ON compute.row = s.row
LEFT JOIN communication ON communication.row = s.row
ORDER BY s.row)";

constexpr std::array kGap{
    Column{"id", kInteger, false, "Row of `allocator_event`."},
    Column{"ts", kInteger, false, "Time in ns."},
    Column{"requested", kInteger, false, "As in `memory_parts`, and so the others up to `private_pools`."},
    Column{"rounding", kInteger, false, "With `requested` it is `allocated`."},
    Column{"pending_free", kInteger, false, "With `allocated` it is `active`."},
    Column{"hard_fragmentation", kInteger, false, "Free between blocks in use."},
    Column{"soft_fragmentation", kInteger, false, "Whole free segments."},
    Column{"stream_fragmentation", kInteger, false, "Whole free segments of other streams."},
    Column{"private_pools", kInteger, false, "Free in private pools."},
    Column{"allocated", kInteger, false, "`allocated_bytes` after the event."},
    Column{
        "active", kInteger, false,
        "`active_bytes` after the event; a block that comes back in the same call as its free counts until the free."},
    Column{"reserved", kInteger, false, "`reserved_bytes` after the event."},
    Column{"gap", kInteger, false, "Reserved less allocated: the sum of the parts from `pending_free` on."},
};
constexpr std::string_view kGapSelect = R"(SELECT p.id AS id, e.ts AS ts, p.requested AS requested,
       p.rounding AS rounding, p.pending_free AS pending_free, p.hard_fragmentation AS hard_fragmentation,
       p.soft_fragmentation AS soft_fragmentation, p.stream_fragmentation AS stream_fragmentation,
       p.private_pools AS private_pools, p.requested + p.rounding AS allocated,
       p.requested + p.rounding + p.pending_free AS active,
       p.requested + p.rounding + p.pending_free + p.hard_fragmentation + p.soft_fragmentation +
         p.stream_fragmentation + p.private_pools AS reserved,
       p.pending_free + p.hard_fragmentation + p.soft_fragmentation + p.stream_fragmentation +
         p.private_pools AS gap
FROM memory_parts p JOIN allocator_event e ON e.id = p.id)";

constexpr std::array kBlockName{
    Column{"id", kInteger, false, "Row of `block`."},
    Column{"size", kInteger, true, "Bytes that `allocated_bytes` counts; NULL where not known."},
    Column{"category", kText, false, "What it is for."},
    Column{"step", kInteger, false, "The step of its allocation; −1 before the first."},
    Column{"parameter", kText, true, "The parameter it belongs to."},
    Column{"unit", kText, true, "The FSDP unit it belongs to."},
    Column{"module", kText, true, "The module in whose forward or backward it was allocated."},
    Column{"op", kText, true, "The operator that allocated it."},
    Column{"label", kText, true, "The innermost range, or the op, that allocated it."},
    Column{"file", kText, true,
           "Where the program allocated it: of the stack's innermost frame that is not PyTorch's."},
    Column{"line", kInteger, true, "As `file`."},
    Column{"function", kText, true, "As `file`."},
};
constexpr std::string_view kBlockNameSelect = R"(SELECT b.id AS id, b.size AS size, b.category AS category,
       b.step AS step, p.name AS parameter, u.name AS unit, m.text AS module, o.text AS op, l.text AS label,
       f.file AS file, f.line AS line, f.function AS function
FROM block b
LEFT JOIN parameter p ON p.id = b.parameter
LEFT JOIN unit u ON u.id = b.unit
LEFT JOIN label m ON m.id = b.module
LEFT JOIN label o ON o.id = b.op
LEFT JOIN label l ON l.id = b.label
LEFT JOIN stack s ON s.id = b.stack
LEFT JOIN frame f ON f.id = s.user_frame)";

constexpr std::array kStackFrame{
    Column{"stack", kInteger, false, "The `stack`."},
    Column{"depth", kInteger, false, "0 for its innermost frame."},
    Column{"file", kText, false, "Of the frame."},
    Column{"line", kInteger, false, "Of the frame; 0 where unknown."},
    Column{"function", kText, false, "Of the frame."},
};
constexpr std::string_view kStackFrameSelect = R"(WITH RECURSIVE walk(stack, depth, at) AS (
  SELECT id, 0, id FROM stack
  UNION ALL
  SELECT w.stack, w.depth + 1, s.caller FROM walk w JOIN stack s ON s.id = w.at WHERE s.caller < s.id)
SELECT w.stack AS stack, w.depth AS depth, f.file AS file, f.line AS line, f.function AS function
FROM walk w JOIN stack s ON s.id = w.at JOIN frame f ON f.id = s.frame)";

constexpr std::array kViews{
    View{"block_name", "Every block with what it belongs to and what allocated it, in words.", kBlockName,
         kBlockNameSelect},
    View{"stack_frame", "Every frame of every stack, innermost first.", kStackFrame, kStackFrameSelect},
    View{"slices", "Everything that took time, on the device and on the host, as Perfetto's `slice`.", kSlices,
         kSlicesSelect},
    View{"memory_change", "By how much each allocator event changed PyTorch's memory statistics.", kMemoryChange,
         kMemoryChangeSelect},
    View{"memory_timeline",
         "PyTorch's memory statistics after each allocator event. A recording that did not begin from empty starts "
         "at what its final segments hold less all changes.",
         kMemoryTimeline, kMemoryTimelineSelect},
    View{"memory_by_category", "Allocated bytes of each category over time, of the blocks seen allocated.",
         kMemoryByCategory, kMemoryByCategorySelect},
    View{"peak_by_category",
         "What was allocated at the moment of each step's peak of allocated bytes, the state at its start included.",
         kPeakByCategory, kPeakByCategorySelect},
    View{"gap",
         "Reserved memory without remainder after each allocator event: what `explain` says (docs/explain.md), for "
         "SQL.",
         kGap, kGapSelect},
    View{"collective", "The collectives among the device ops.", kCollective, kCollectiveSelect},
    View{"exposed_communication", "For each collective, how much of it no work on the compute stream hid.",
         kExposedCommunication, kExposedCommunicationSelect},
    View{"step_summary", "Each step's time on the compute stream: from the end of the step before there to its own.",
         kStepSummary, kStepSummarySelect},
};

}  // namespace

std::span<const View> views() {
  return kViews;
}

}  // namespace foreshard::traces
