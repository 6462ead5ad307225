// `foreshard view RUN -o out.html|.svg|.png|.pdf`: the interactive page of a stored run, or a static picture of it.

#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options/newest_store.hpp"
#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/options/source_options.hpp"
#include "cli/reports/no_remedies.hpp"
#include "cli/reports/run_answer.hpp"
#include "cli/reports/stored_pictures.hpp"
#include "cli/terminal/child_process.hpp"
#include "cli/verbs/page_output.hpp"
#include "cli/verbs/run_links.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/units.hpp"
#include "sim/machine/profile.hpp"
#include "traces/store/store.hpp"
#include "viz/svg/rank_picture.hpp"
#include "viz/svg/timeline.hpp"

namespace foreshard::cli {
namespace {

struct ViewOptions {
  std::string run;
  std::string output;
  std::string step;
  std::optional<Nanoseconds> from;
  std::optional<Nanoseconds> to;
  std::optional<std::uint32_t> width;
  std::optional<std::uint32_t> height;
  std::optional<std::string> theme;
  std::string by = "category";
  std::optional<std::string> picture;
  std::string machine;
  bool no_remedies = false;
  bool force = false;
};

/// "html", "svg", "png" or "pdf", by the file's name.
Result<std::string> format_of(const std::string& path) {
  for (const std::string format : {"html", "svg", "png", "pdf"})
    if (path.ends_with("." + format)) return format;
  return fail(ErrorKind::usage, "a view is written as .html, .svg, .png or .pdf", path,
              "name the output x.html or x.svg");
}

Result<viz::WindowRequest> window_request(const ViewOptions& options) {
  viz::WindowRequest out;
  out.from = options.from;
  out.to = options.to;
  out.all = options.step == "all";
  if (options.step.empty() || out.all) return out;
  const auto step = parse_count(options.step);
  if (!step || *step > INT32_MAX)
    return fail(ErrorKind::usage, fmt::format("'{}' is no step", options.step), "--step", "give a number or all");
  out.step = static_cast<std::int32_t>(*step);
  return out;
}

Result<viz::TimelineOptions> timeline_options(const ViewOptions& options) {
  viz::TimelineOptions out;
  if (options.width) out.width = *options.width;
  out.height = options.height;
  out.theme = options.theme == "dark" ? viz::Theme::dark : viz::Theme::light;
  out.by = parse_name<viz::GroupBy>(options.by);  // none: by category
  const auto window = window_request(options);
  FORESHARD_TRY(window);
  out.window = *window;
  return out;
}

/// rsvg-convert of librsvg.
Result<std::string> convert(const std::string& svg, const std::string& format) {
  // A PDF of equal runs is equal: librsvg takes its date from here.
  ::setenv("SOURCE_DATE_EPOCH", "0", 0);
  return filter_program({"rsvg-convert", "--format=" + format}, svg,
                        "install Debian's or Ubuntu's package librsvg2-bin, or write x.svg");
}

/// A picture of what a search or a forecast stored.
Result<std::string> draw_stored(const Run& run, const ViewOptions& options) {
  const bool is_front = options.picture == "front";
  const auto theme = options.theme == "dark" ? viz::Theme::dark : viz::Theme::light;
  const auto drawn = [&](auto picture, auto draw) {
    picture.theme = theme;
    if (options.width) picture.width = *options.width;
    return draw(picture);
  };
  if (auto front = is_front ? stored_front(run) : std::nullopt) return drawn(std::move(*front), viz::draw_front);
  if (auto steps = is_front ? std::nullopt : stored_step_memory(run))
    return drawn(std::move(*steps), viz::draw_memory_over_steps);
  return fail(ErrorKind::input, is_front ? "the store has no search" : "the store has no forecast", "--picture",
              is_front ? "write it with `foreshard tune SOURCE -o RUN`"
                       : "write it with `foreshard forecast SOURCE --lengths FILE -o RUN`");
}

bool is_stored(const ViewOptions& options) {
  return options.picture == "front" || options.picture == "steps";
}

/// The picture that --picture names.
Result<std::string> draw(const Run& run, const ViewOptions& options, Console& console) {
  auto timeline = timeline_options(options);
  FORESHARD_TRY(timeline);
  if (is_stored(options)) return draw_stored(run, options);
  if (options.picture == "ranks") return viz::draw_rank_map(run, {timeline->window, timeline->width, timeline->theme});
  timeline->limit = run_answer(run).capacity;
  auto links = links_of(run, options.machine, console);
  FORESHARD_TRY(links);
  if (*links) timeline->links = std::move((*links)->loads);
  return viz::draw_timeline(run, *timeline);
}

/// The points of the front that a search kept the steps of. One that is not there is left out, with a note.
std::vector<FrontPage> front_of(const Run& run, const ViewOptions& options, Console& console) {
  std::vector<FrontPage> out;
  for (const FrontRun& one : stored_front_runs(run)) {
    const std::string path = (std::filesystem::path(options.run).parent_path() / one.run).generic_string();
    auto point = traces::read_run(path, {console.unverified});
    if (point)
      out.push_back({one.point, std::move(*point)});
    else
      console.note(fmt::format("point {} is shown without its steps: {}", one.point, point.error().text()));
  }
  return out;
}

/// What pictures other than the timeline have no use for.
Result<void> check_picture(const ViewOptions& options) {
  if (is_stored(options)) {
    const std::pair<const char*, bool> given[] = {
        {"--machine", !options.machine.empty()}, {"--height", options.height.has_value()},
        {"--by", options.by != "category"},      {"--step", !options.step.empty()},
        {"--from", options.from.has_value()},    {"--to", options.to.has_value()}};
    for (const auto& [option, is_given] : given)
      if (is_given)
        return fail(ErrorKind::usage, fmt::format("a picture of {} is of no step", *options.picture), option,
                    "leave it out");
  }
  if (options.picture == "ranks" && !options.machine.empty())
    return fail(ErrorKind::usage, "a picture of ranks shows no links", "--machine", "leave it out");
  if (options.picture != "ranks" || (!options.height && options.by == "category")) return {};
  return fail(ErrorKind::usage,
              options.height ? "a picture of ranks is as high as its rows" : "a picture of ranks shows no memory",
              options.height ? "--height" : "--by", "leave it out");
}

/// A page has the size of the window that shows it.
Result<int> view_page(const ViewOptions& options, Console& console) {
  if (options.picture)
    return fail(ErrorKind::usage, "a page has every picture in it", "--picture", "leave it out, or write x.svg");
  if (options.width || options.height)
    return fail(ErrorKind::usage, "a page has no size of its own", options.width ? "--width" : "--height",
                "leave it out, or write x.svg");
  const auto window = window_request(options);
  FORESHARD_TRY(window);
  FORESHARD_TRY(may_write(options.output, options.force));
  auto run = traces::read_run(options.run, {console.unverified});
  FORESHARD_TRY(run);
  const PageFile file{options.output, options.theme.value_or("auto"), options.force};
  const auto machine = options.no_remedies ? std::nullopt : std::optional(options.machine);
  if (machine && !machine->empty()) FORESHARD_TRY(read_machine(*machine));
  auto written =
      write_run_page(*run, options.run, front_of(*run, options, console),
                     {window->step, window->all, window->from, window->to, parse_name<viz::GroupBy>(options.by)},
                     {window->step, machine}, file, console);
  if (!written) return tl::unexpected(in_run(written.error(), run->info.name, options.run));
  console.note("wrote " + options.output);
  return kDone;
}

Result<int> view(ViewOptions& options, Console& console) {
  auto named = store_or_newest(options.run, console);
  FORESHARD_TRY(named);
  options.run = std::move(*named);
  const auto format = format_of(options.output);
  FORESHARD_TRY(format);
  if (*format == "html") return view_page(options, console);
  if (options.no_remedies)
    return fail(ErrorKind::usage, "a picture has no remedies", kNoRemedies, "leave it out, or write x.html");
  FORESHARD_TRY(timeline_options(options));
  FORESHARD_TRY(check_picture(options));
  FORESHARD_TRY(may_write(options.output, options.force));
  auto run = traces::read_run(options.run, {console.unverified});
  FORESHARD_TRY(run);
  auto svg = draw(*run, options, console);
  if (!svg) return tl::unexpected(in_run(svg.error(), run->info.name, options.run));
  auto picture = *format == "svg" ? std::move(svg) : convert(*svg, *format);
  if (!picture) return tl::unexpected(in_file(picture.error(), options.output));
  FORESHARD_TRY(write_text(options.output, *picture, options.force));
  console.note("wrote " + options.output);
  return kDone;
}

}  // namespace

Action add_view(OptionSet& set) {
  auto options = std::make_shared<ViewOptions>();
  set.add_option("run", options->run, "a run store; default: the newest here").type_name("RUN");
  set.add_option("-o,--output", options->output, "the page or the picture; png and pdf need rsvg-convert")
      .required()
      .type_name("FILE.html|svg|png|pdf")
      .writes();
  set.add_option("--step", options->step, "a step's number, or all; default: the last").type_name("N|all");
  add_parsed<Nanoseconds>(set, "--from", options->from, &parse_time, "from this time after the step's begin")
      .type_name("TIME");
  add_parsed<Nanoseconds>(set, "--to", options->to, &parse_time, "to this time after the step's begin")
      .type_name("TIME");
  set.add_option("--width", options->width, "pixels of a picture; default 1600").type_name("N");
  set.add_option("--height", options->height, "pixels of a picture; default: as many as it needs").type_name("N");
  set.add_option("--theme", options->theme, "light or dark; default: of a picture light, of a page the browser's")
      .one_of({"light", "dark"})
      .type_name("light|dark");
  set.add_option("--by", options->by,
                 "what the memory is stacked by; frame: by line of the program, of a recording with stacks")
      .one_of({"category", "module", "operator", "frame"})
      .type_name("category|module|operator|frame");
  set.add_option("--picture", options->picture,
                 "of a picture: memory and lanes of one rank; what every rank does over time; what a stored search "
                 "tried; memory over a stored forecast's steps; default: timeline")
      .one_of({"timeline", "ranks", "front", "steps"})
      .type_name("timeline|ranks|front|steps");
  set.add_option(
         "--machine", options->machine,
         "profile that the links' rates are of, and remedies of a page simulated on; default: the run's, or h200")
      .type_name("NAME|FILE")
      .suggest(sim::builtin_profile_names());
  set.add_flag(kNoRemedies, options->no_remedies, "of a page: explain memory, but simulate no remedies");
  set.add_flag("--force", options->force, "write over an existing file");
  return [options](Console& console) { return view(*options, console); };
}

}  // namespace foreshard::cli
