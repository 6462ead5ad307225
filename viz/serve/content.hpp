// What the local server has to show: runs out of stores, and the progress of work that is still going on.
//
// Used by server.cpp from several threads at once. A store is read when it is first asked for, and again when a page is
// asked for after the file was replaced; pieces of the one before are then gone (404), and a reload shows the new one.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "traces/store/open_options.hpp"
#include "viz/pack/pack.hpp"
#include "viz/pack/page.hpp"
#include "viz/serve/live_page.hpp"
#include "viz/serve/questioner.hpp"
#include "viz/serve/reports.hpp"
#include "viz/serve/request.hpp"

namespace foreshard::viz {

struct Answer {
  unsigned status = 200;
  std::string type;
  std::string body;
  std::shared_ptr<void> until_sent = {};  ///< let go of once the browser has the answer, or is gone
};

struct ContentLimits {
  QuestionLimits question;
  std::size_t progress_bytes = 1 << 20;  ///< of one answer
};

class Content {
 public:
  /// A file is a store, a progress file (docs/serve.md), or not there yet: its page waits for it.
  Content(std::vector<std::string> paths, std::string theme, ContentLimits limits = {}, Reports reports = {},
          traces::OpenOptions open = {});

  /// Reads what is there. Errors: of a file that is neither a store nor progress; of one that is missing, unless
  /// `may_be_missing`.
  [[nodiscard]] Result<void> check(bool may_be_missing);
  /// `body`: of a POST. `data` address of pieces: "/run/N/GENERATION/".
  [[nodiscard]] Answer answer(const Asked& asked, std::string_view body);
  /// Whether its answer is one of the reports: those may take minutes.
  [[nodiscard]] bool is_report(const Asked& asked) const;
  /// Questions in SQL end soon, now and from here on.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }

 private:
  struct Shown;  ///< one generation of a store
  using Store = Result<std::shared_ptr<const Shown>>;
  struct File;

  [[nodiscard]] Answer index();
  [[nodiscard]] Answer page(std::size_t at);
  [[nodiscard]] Answer piece(std::size_t at, std::uint64_t generation, std::string_view name);
  [[nodiscard]] Answer comparison(std::size_t a, std::size_t b);
  [[nodiscard]] Answer comparison_piece(const Asked& asked);
  [[nodiscard]] Answer sql(std::size_t at, std::string_view question) const;
  [[nodiscard]] Answer progress(std::size_t at, std::uint64_t from) const;
  /// The address of the list, where there is one.
  [[nodiscard]] std::string home() const;
  [[nodiscard]] ListedFile listed(std::size_t at);
  [[nodiscard]] Store shown(std::size_t at, bool fresh);
  /// As shown(), where it is that generation still; else the answer that says so.
  [[nodiscard]] tl::expected<std::shared_ptr<const Shown>, Answer> generation(std::size_t at, std::uint64_t wanted);

  std::vector<std::unique_ptr<File>> files_;
  std::string theme_;
  ContentLimits limits_;
  Reports reports_;
  traces::OpenOptions open_;
  std::atomic<bool> stopped_{false};

 public:
  ~Content();
};

}  // namespace foreshard::viz
