#include "gpu/probe/stopwatch.hpp"

#include <algorithm>
#include <array>

#include "gpu/cuda/device_failure.hpp"

namespace foreshard::gpu {

Stopwatch::Stopwatch() {
  for (cudaEvent_t* event : {&start_, &stop_, &other_stop_, &gate_}) require(cudaEventCreate(event), "cudaEventCreate");
}

Stopwatch::~Stopwatch() {
  for (cudaEvent_t event : {start_, stop_, other_stop_, gate_}) static_cast<void>(cudaEventDestroy(event));
}

double Stopwatch::elapsed_us(cudaEvent_t from, cudaEvent_t to) const {
  float ms = 0;
  require(cudaEventElapsedTime(&ms, from, to), "cudaEventElapsedTime");
  return static_cast<double>(ms) * 1e3;
}

double Stopwatch::isolated(cudaStream_t stream, int count, const Work& work) {
  work(stream);
  std::array<double, 3> us{};
  for (double& one : us) {
    require(cudaEventRecord(start_, stream), "cudaEventRecord");
    for (int i = 0; i < count; ++i) work(stream);
    require(cudaEventRecord(stop_, stream), "cudaEventRecord");
    require(cudaEventSynchronize(stop_), "cudaEventSynchronize");
    one = elapsed_us(start_, stop_) / count;
  }
  std::sort(us.begin(), us.end());
  return us[1];
}

double Stopwatch::concurrent(cudaStream_t stream, int count, const Work& work, cudaStream_t concurrent, int others,
                             const Work& other) {
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  other(concurrent);  // the first of the others is under way when the work begins
  require(cudaEventRecord(gate_, concurrent), "cudaEventRecord");
  require(cudaStreamWaitEvent(stream, gate_, 0), "cudaStreamWaitEvent");
  for (int i = 1; i < others; ++i) other(concurrent);
  require(cudaEventRecord(other_stop_, concurrent), "cudaEventRecord");
  require(cudaEventRecord(start_, stream), "cudaEventRecord");
  for (int i = 0; i < count; ++i) work(stream);
  require(cudaEventRecord(stop_, stream), "cudaEventRecord");
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return elapsed_us(stop_, other_stop_) < 0 ? 0 : elapsed_us(start_, stop_) / count;
}

Stopwatch::Both Stopwatch::both(cudaStream_t stream, int count, const Work& work, cudaStream_t concurrent, int others,
                                const Work& other) {
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  work(stream);  // holds both back until everything is queued
  require(cudaEventRecord(gate_, stream), "cudaEventRecord");
  require(cudaStreamWaitEvent(concurrent, gate_, 0), "cudaStreamWaitEvent");
  require(cudaEventRecord(start_, stream), "cudaEventRecord");
  for (int i = 0; i < count; ++i) work(stream);
  require(cudaEventRecord(stop_, stream), "cudaEventRecord");
  for (int i = 0; i < others; ++i) other(concurrent);
  require(cudaEventRecord(other_stop_, concurrent), "cudaEventRecord");
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return {elapsed_us(start_, stop_), elapsed_us(start_, other_stop_)};
}

}  // namespace foreshard::gpu
