// The same work for every index, spread over threads.
//
// `work` is called once for each index, on any thread, in no order; it must only touch what belongs to its index.
// `progress` is called on the calling thread alone, now and then and at the end, with how many are done; without it
// that thread works, too. With one thread everything runs on the calling one. After an exception of `work` no new index
// is begun; those under way end, then it is thrown again here. Where several of them failed, that of the smallest index
// among these: with more than one thread a smaller index that would fail, too, may be passed over, so which exception
// comes depends on timing.
#pragma once

#include <cstddef>
#include <functional>

namespace foreshard::sim {

void for_each(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& work,
              const std::function<void(std::size_t done)>& progress = {});

/// What the machine has; at least 1.
[[nodiscard]] unsigned hardware_threads();

}  // namespace foreshard::sim
