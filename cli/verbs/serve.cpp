// `foreshard serve RUN...`: the interactive page from a local server, for stores too big to embed and work in progress.

#include <fmt/core.h>

#include <memory>

#include "cli/options/newest_store.hpp"
#include "cli/options/option_set.hpp"
#include "cli/verbs/verbs.hpp"
#include "viz/serve/server.hpp"

namespace foreshard::cli {
namespace {

constexpr std::uint16_t kPort = 8347;

struct ServeOptions {
  std::vector<std::string> runs;
  std::optional<std::uint16_t> port;
  std::string theme = "auto";
  bool wait = false;
};

Result<int> serve(ServeOptions& options, Console& console) {
  if (options.runs.empty()) {
    auto newest = store_or_newest({}, console);
    FORESHARD_TRY(newest);
    options.runs.push_back(std::move(*newest));
  }
  viz::Content content(options.runs, options.theme);
  if (auto checked = content.check(options.wait); !checked) {
    if (!options.wait && checked.error().hint.empty()) checked.error().hint = "--wait waits for a run to be written";
    return tl::unexpected(checked.error());
  }
  viz::ServerOptions server_options;
  server_options.signals = true;
  server_options.port = options.port.value_or(kPort);
  auto server = std::make_unique<viz::Server>(content, server_options);
  auto port = server->listen();
  if (!port && !options.port) {  // any other does as well
    server_options.port = 0;
    server = std::make_unique<viz::Server>(content, server_options);
    port = server->listen();
  }
  FORESHARD_TRY(port);
  console.out << fmt::format("http://127.0.0.1:{}/", *port) << std::endl;  // a script waits for this line
  console.note("serving on the loopback address only; Ctrl-C ends it");
  server->run();
  return kDone;
}

}  // namespace

Action add_serve(OptionSet& set) {
  auto options = std::make_shared<ServeOptions>();
  set.add_option("runs", options->runs,
                 "run stores, and files that sweep --progress writes; default: the newest store here")
      .type_name("RUN...");
  set.add_option("--port", options->port, "port of the loopback; 0: any free one; default: 8347, or any free one")
      .type_name("N");
  set.add_option("--theme", options->theme, "light or dark; default: the browser's")
      .one_of({"auto", "light", "dark"})
      .type_name("light|dark");
  set.add_flag("--wait", options->wait, "files may come later: their pages wait for them");
  return [options](Console& console) { return serve(*options, console); };
}

}  // namespace foreshard::cli
