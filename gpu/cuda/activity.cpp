#include "gpu/cuda/activity.hpp"

#include <cupti.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>

namespace foreshard::gpu {
namespace {

constexpr std::size_t kBufferBytes = 8 * kMiB;
constexpr std::size_t kBufferAlignment = 8;  // ACTIVITY_RECORD_ALIGNMENT of cupti_activity.h

constexpr std::array kKinds{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                            CUPTI_ACTIVITY_KIND_MEMCPY,
                            CUPTI_ACTIVITY_KIND_MEMCPY2,
                            CUPTI_ACTIVITY_KIND_MEMSET,
                            CUPTI_ACTIVITY_KIND_RUNTIME,
                            CUPTI_ACTIVITY_KIND_DRIVER,
                            CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};

struct Cupti {
  decltype(&::cuptiActivityRegisterTimestampCallback) register_timestamp = nullptr;
  decltype(&::cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&::cuptiActivityEnable) enable = nullptr;
  decltype(&::cuptiActivityDisable) disable = nullptr;
  decltype(&::cuptiActivityFlushAll) flush = nullptr;
  decltype(&::cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&::cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
  decltype(&::cuptiActivityPushExternalCorrelationId) push_id = nullptr;
  decltype(&::cuptiActivityPopExternalCorrelationId) pop_id = nullptr;
  decltype(&::cuptiGetResultString) result_string = nullptr;
  decltype(&::cuptiSubscribe) subscribe = nullptr;
  decltype(&::cuptiEnableCallback) enable_callback = nullptr;
  decltype(&::cuptiGetGraphNodeId) node_id = nullptr;
};

struct Raw {
  std::uint32_t correlation = 0;
  std::uint64_t node = 0;  ///< of a CUDA graph; 0: none
  Nanoseconds start;
  Nanoseconds end;
};

/// What CUPTI's callbacks write to: they have no argument of ours.
struct Records {
  std::mutex mutex;
  std::vector<Raw> activities;
  std::map<std::uint32_t, std::uint64_t> op_of;           // by CUPTI's correlation id
  std::map<std::uint64_t, std::uint64_t> number_of_node;  // by CUPTI's node id
  std::optional<std::uint64_t> node_number;               // of the nodes that are made now
  std::uint64_t dropped = 0;
  const Cupti* cupti = nullptr;
};

Records& records() {
  static Records kRecords;
  return kRecords;
}

Result<Cupti> load() {
  void* library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return fail(ErrorKind::input, fmt::format("CUPTI cannot be loaded: {}", why == nullptr ? "unknown" : why), {},
                "install CUDA 13's CUPTI, or put its folder into LD_LIBRARY_PATH");
  }
  Cupti c;
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  find("cuptiActivityRegisterTimestampCallback", c.register_timestamp);
  find("cuptiActivityRegisterCallbacks", c.register_callbacks);
  find("cuptiActivityEnable", c.enable);
  find("cuptiActivityDisable", c.disable);
  find("cuptiActivityFlushAll", c.flush);
  find("cuptiActivityGetNextRecord", c.next_record);
  find("cuptiActivityGetNumDroppedRecords", c.dropped_records);
  find("cuptiActivityPushExternalCorrelationId", c.push_id);
  find("cuptiActivityPopExternalCorrelationId", c.pop_id);
  find("cuptiGetResultString", c.result_string);
  find("cuptiSubscribe", c.subscribe);
  find("cuptiEnableCallback", c.enable_callback);
  find("cuptiGetGraphNodeId", c.node_id);
  if (!missing.empty()) return fail(ErrorKind::input, "this CUPTI has no " + missing, {}, "install CUDA 13's CUPTI");
  return c;
}

const Result<Cupti>& cupti() {
  static const Result<Cupti> kLoaded = load();
  return kLoaded;
}

Result<void> check(const Cupti& c, CUptiResult code, const char* call) {
  if (code == CUPTI_SUCCESS) return {};
  const char* text = nullptr;
  static_cast<void>(c.result_string(code, &text));
  return fail(ErrorKind::mismatch, fmt::format("{}: {}", call, text == nullptr ? "unknown error" : text));
}

std::uint64_t CUPTIAPI host_clock() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;  // CUPTI then drops records and counts them
  *most_records = 0;
}

/// Kernels, copies, peer copies and memsets differ in their records' layout, not in these four fields.
template <class Record>
void add_activity(Records& out, const CUpti_Activity* record) {
  const auto* activity = reinterpret_cast<const Record*>(record);
  out.activities.push_back({activity->correlationId,
                            activity->graphNodeId,
                            {static_cast<std::int64_t>(activity->start)},
                            {static_cast<std::int64_t>(activity->end)}});
}

void add_record(Records& out, const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      add_activity<CUpti_ActivityKernel10>(out, record);
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      add_activity<CUpti_ActivityMemcpy6>(out, record);
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      add_activity<CUpti_ActivityMemcpyPtoP4>(out, record);
      break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      add_activity<CUpti_ActivityMemset4>(out, record);
      break;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto* link = reinterpret_cast<const CUpti_ActivityExternalCorrelation*>(record);
      out.op_of[link->correlationId] = link->externalId;
      break;
    }
    default:
      break;  // runtime and driver calls: enabled because external ids come with them
  }
}

void CUPTIAPI buffer_completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                               std::size_t valid) {
  Records& out = records();
  const std::lock_guard lock(out.mutex);
  CUpti_Activity* record = nullptr;
  while (valid > 0 && out.cupti->next_record(buffer, valid, &record) == CUPTI_SUCCESS) add_record(out, record);
  std::size_t dropped = 0;
  if (out.cupti->dropped_records(context, stream, &dropped) == CUPTI_SUCCESS) out.dropped += dropped;
  std::free(buffer);
}

constexpr std::array kNodeCallbacks{CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED};

/// Nodes are made on the thread that captures, within the call that is captured, and copied within cudaGraphInstantiate
/// (CUPTI's sample cuda_graphs_trace).
void CUPTIAPI node_made(void*, CUpti_CallbackDomain, CUpti_CallbackId which, const void* data) {
  const auto* resource = static_cast<const CUpti_ResourceData*>(data);
  const auto* graph = static_cast<const CUpti_GraphData*>(resource->resourceDescriptor);
  const bool cloned = which == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED;
  std::uint64_t node = 0;
  std::uint64_t original = 0;
  if (cupti()->node_id(graph->node, &node) != CUPTI_SUCCESS) return;
  if (cloned && cupti()->node_id(graph->originalNode, &original) != CUPTI_SUCCESS) return;
  Records& out = records();  // locked behind CUPTI's calls: its own thread holds its locks as it hands records over
  const std::lock_guard lock(out.mutex);
  if (!cloned && out.node_number) out.number_of_node[node] = *out.node_number;
  if (!cloned) return;
  if (const auto known = out.number_of_node.find(original); known != out.number_of_node.end())
    out.number_of_node[node] = known->second;
}

/// Without a subscription (CUPTI gives one a process) nodes have no numbers, which unnamed() says.
CUpti_SubscriberHandle subscriber() {
  static const CUpti_SubscriberHandle kSubscriber = [] {
    CUpti_SubscriberHandle handle = nullptr;
    return cupti()->subscribe(&handle, node_made, nullptr) == CUPTI_SUCCESS ? handle : nullptr;
  }();
  return kSubscriber;
}

void hear_of_nodes(bool hear) {
  if (subscriber() == nullptr) return;
  for (const auto callback : kNodeCallbacks)
    static_cast<void>(cupti()->enable_callback(hear ? 1 : 0, subscriber(), CUPTI_CB_DOMAIN_RESOURCE, callback));
}

}  // namespace

Result<std::unique_ptr<ActivityRecording>> ActivityRecording::start() {
  const Result<Cupti>& loaded = cupti();
  FORESHARD_TRY(loaded);
  const Cupti& c = *loaded;
  {
    const std::lock_guard lock(records().mutex);
    records().activities.clear();
    records().op_of.clear();
    records().number_of_node.clear();
    records().node_number.reset();
    records().dropped = 0;
    records().cupti = &c;
  }
  static const Result<void> kRegistered = [&c]() -> Result<void> {
    if (auto ok = check(c, c.register_timestamp(host_clock), "cuptiActivityRegisterTimestampCallback"); !ok) return ok;
    return check(c, c.register_callbacks(buffer_requested, buffer_completed), "cuptiActivityRegisterCallbacks");
  }();
  FORESHARD_TRY(kRegistered);
  auto recording = std::unique_ptr<ActivityRecording>(new ActivityRecording);
  for (const CUpti_ActivityKind kind : kKinds) FORESHARD_TRY(check(c, c.enable(kind), "cuptiActivityEnable"));
  return recording;
}

ActivityRecording::~ActivityRecording() {
  for (const CUpti_ActivityKind kind : kKinds) static_cast<void>(cupti()->disable(kind));
  static_cast<void>(cupti()->flush(0));
}

void ActivityRecording::push(std::uint64_t op) {
  static_cast<void>(cupti()->push_id(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, op));
}

void ActivityRecording::pop() {
  std::uint64_t last = 0;
  static_cast<void>(cupti()->pop_id(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last));
}

void ActivityRecording::begin_nodes() {
  hear_of_nodes(true);
}

void ActivityRecording::node(std::uint64_t number) {
  const std::lock_guard lock(records().mutex);
  records().node_number = number;
}

void ActivityRecording::end_nodes() {
  hear_of_nodes(false);
  const std::lock_guard lock(records().mutex);
  records().node_number.reset();
}

Result<std::vector<Activity>> ActivityRecording::collect() {
  FORESHARD_TRY(check(*cupti(), cupti()->flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll"));
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  std::vector<Activity> out;
  out.reserve(all.activities.size());
  unnamed_ = 0;
  for (const Raw& raw : all.activities) {
    const auto op = all.op_of.find(raw.correlation);
    if (op == all.op_of.end()) continue;
    const auto node = all.number_of_node.find(raw.node);
    if (raw.node != 0 && node == all.number_of_node.end())
      ++unnamed_;
    else
      out.push_back({op->second + (raw.node != 0 ? node->second : 0), raw.start, raw.end});
  }
  std::stable_sort(out.begin(), out.end(), [](const Activity& a, const Activity& b) { return a.start < b.start; });
  return out;
}

std::uint64_t ActivityRecording::dropped() const {
  const std::lock_guard lock(records().mutex);
  return records().dropped;
}

}  // namespace foreshard::gpu
