// `tune … --part 3/8 --parts DIR`: a search whose batches are shared among tasks that see one folder.
//
// Each task simulates its share of a batch, writes it to DIR/part-3-of-8/batch-12.json, takes the others' shares from
// there and goes on with all of them, so that every task is in the same state. What is there is not simulated again: a
// task that is started again goes on where it ended. A task whose share does not come is named, and its share simulated
// here; from then on it is not waited for until it has caught up. Without a part all shares must be there, and nothing
// is simulated: those that are missing are named.
//
// Who: cli's tune. Who simulates a point, and when, does not shape it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/terminal/console.hpp"
#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "sim/parallel/part.hpp"
#include "sim/tune/batch.hpp"

namespace foreshard::cli {

struct BatchPartsRequest {
  std::string folder;             ///< of all tasks
  std::optional<sim::Part> part;  ///< none: all parts are read
  std::string fingerprint;        ///< of the search
  Nanoseconds wait;               ///< for the shares of one batch
  bool force = false;             ///< the own shares that are there are written anew
};

class BatchParts {
 public:
  /// Makes the folder of the part. Errors: input, where it cannot be made or read, or where no part is there that could
  /// be read; usage, where the folder has parts of another number.
  [[nodiscard]] static Result<BatchParts> open(BatchPartsRequest request, Console& console);

  /// Every point of a batch. Errors: input, of a share that cannot be read or written; mismatch, of one of another
  /// search; usage, without a part, of shares that are missing.
  [[nodiscard]] Result<std::vector<sim::SweepPoint>> points(const sim::TuneBatch& batch,
                                                            const sim::SimulatePlaces& simulate);

  /// Of the batches so far.
  [[nodiscard]] std::size_t own_points() const { return own_points_; }
  /// Where the own shares are.
  [[nodiscard]] std::string own_folder() const;

 private:
  struct Shares;  // of one batch

  BatchParts(BatchPartsRequest request, std::uint32_t of, Console& console)
      : request_(std::move(request)), of_(of), console_(&console) {}

  [[nodiscard]] std::string path(std::uint32_t part, std::size_t batch) const;
  [[nodiscard]] Result<bool> take(std::uint32_t part, Shares& shares) const;
  [[nodiscard]] Result<void> take_others(Shares& shares);
  [[nodiscard]] Result<void> share_own(Shares& shares, const sim::SimulatePlaces& simulate);
  [[nodiscard]] Result<void> all_there(const Shares& shares) const;
  void give_up(const Shares& shares);

  BatchPartsRequest request_;
  std::uint32_t of_ = 1;
  Console* console_;
  std::set<std::uint32_t> lost_;  // which are not waited for
  std::size_t own_points_ = 0;
};

}  // namespace foreshard::cli
