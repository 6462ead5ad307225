// The page: its parts, and what joins them.

import { RunData } from './data/run';
import { TimeReport } from './data/waits';
import { json, DataSource } from './data/source';
import { countEvents } from './format';
import { Link } from './link';
import { firstWindow, Navigation, Whole, wholeOf } from './navigation';
import { Page } from './page';
import { Scene } from './scene';
import { Answer, answerSection } from './ui/answer';
import { button, el, visible } from './ui/dom';
import { helpDialog } from './ui/help';
import { listenToKeys } from './ui/keys';
import { buildLegend } from './ui/legend';
import { Mouse } from './ui/mouse';
import { backButton, Picture, Pictures } from './ui/pictures';
import { compareSection, explainSection, peaksTable, runSection, section } from './ui/panel';
import { Ranks, ranksSection } from './ui/ranks';
import { pathSection } from './ui/rank_row';
import { RangePanel } from './ui/range';
import { copyText } from './ui/save';
import { saveMenu } from './ui/save_menu';
import { SearchBox } from './ui/search_box';
import { SelectionPanel } from './ui/selection';
import { Stage } from './ui/stage';
import { timeSection } from './ui/time';
import { Theme } from './ui/theme';
import { limitToggle, toolbar } from './ui/toolbar';
import { Tooltip } from './ui/tooltip';
import { readLink, runOfLink, Selection, View } from './view';

const NOTICE_TIME = 2500; // ms

function firstView(runs: RunData[], whole: Whole, theme: View['theme']): View {
  const [from, to] = firstWindow(runs);
  return {
    from, to, stacking: runs[0].meta.view.stacking, hidden: new Set(), sections: { memory: true, ranks: true, lanes: true, map: true }, theme,
    mapFrom: 0, mapTo: whole.mapTo, unfolded: new Set(), scroll: 0,
  };
}

/** What the page is told about itself. */
export interface Config {
  title: string;
  theme: View['theme'];
  runs: { prefix: string; label: string }[];
  extras: string[]; // names of the pieces that are not a run's own
  data?: string; // address below which the pieces are
  home?: string; // address of the list of runs
  one_at_a_time?: boolean; // the first of `runs` is shown, and another in its place when asked for
}

export class App implements Page {
  readonly scene: Scene;
  private readonly view: View;
  private readonly theme: Theme;
  private readonly link: Link;
  private readonly stage = new Stage(this);
  private readonly navigation: Navigation;
  private readonly selection: SelectionPanel;
  private readonly range: RangePanel;
  private readonly search = new SearchBox(this, (found) => void this.select(found, true));
  private readonly panel = el('aside', { className: 'panel' });
  private readonly answers = el('div', { className: 'answers' });
  private readonly legendBox = el('div', { className: 'legend-box' });
  private readonly pictures = new Pictures((point, text) => this.showPoint(point, text));
  private readonly notice = el('div', { className: 'notice', hidden: true });
  private readonly help = helpDialog();
  private noticeTimer = 0;
  private drawAsked = false;

  constructor(
    private readonly runs: RunData[],
    private readonly source: DataSource,
    private readonly config: Config,
  ) {
    const whole = wholeOf(runs);
    this.view = firstView(runs, whole, config.theme);
    if (location.hash.length > 1) readLink(location.hash, this.view);
    if (config.one_at_a_time) this.view.run = runs[0].prefix;
    this.layOver();
    countEvents(runs.every((run) => run.meta.counts_events));
    this.theme = new Theme(this.view, runs[0].meta.ink);
    this.link = new Link(this.view, whole);
    this.scene = new Scene(runs, this.view, () => this.theme.ink);
    this.navigation = new Navigation(this, whole);
    /** What was asked for last stands first. */
    const first = (box: HTMLElement) => {
      this.panel.prepend(box);
      this.panel.scrollTop = 0;
    };
    this.selection = new SelectionPanel(this, this.stage, this.navigation, () => first(this.selection.box));
    this.range = new RangePanel(this, this.navigation, () => first(this.range.box));
    this.build(config.title);
    this.listen();
    this.applyTheme();
    void Promise.all(runs.map((run) => run.loadNames())).then(() => this.redraw());
    void Promise.all(runs.map((run) => run.ranksHere)).then(() => this.sectionsChanged());
    void this.fillPanel();
    if (this.view.selection) void this.select(this.view.selection, false);
    if (this.view.range) void this.range.show();
  }

  redraw = (): void => {
    if (this.drawAsked) return;
    this.drawAsked = true;
    requestAnimationFrame(() => {
      this.drawAsked = false;
      this.stage.draw();
    });
  };

  changed(): void {
    this.redraw();
    this.link.writeSoon();
  }

  // For tests, and for whoever has the console open.
  get frames(): number[] {
    return this.stage.frames;
  }
  get canvas(): HTMLCanvasElement {
    return this.stage.canvas;
  }
  setWindow(from: number, to: number): void {
    this.navigation.setWindow(from, to);
  }
  select(selection: Selection | undefined, show: boolean): Promise<void> {
    return this.selection.select(selection, show);
  }

  private build(title: string): void {
    document.title = title;
    const tooltip = new Tooltip(this);
    const bar = toolbar(title, this.config.home, this.scene, this.search, saveMenu(this.scene, this.stage, (text) => this.say(text)), {
      sectionsChanged: () => this.sectionsChanged(),
      overChanged: (over) => {
        this.view.over = over;
        this.layOver();
        if (this.view.range) void this.range.show();
        this.changed();
      },
      fit: () => this.navigation.fit(false),
      copyLink: () => void this.copyLink(),
      nextTheme: () => this.nextTheme(),
      help: () => this.help.showModal(),
    });
    this.panel.append(this.selection.box, this.range.box, this.answers);
    document.getElementById('app')!.append(bar, el('main', {}, el('div', { className: 'left' }, this.pictures.box, this.stage.box, this.legendBox), this.panel),
      tooltip.box, this.notice, this.help);
    new Mouse(this, this.stage, tooltip, this.navigation, this.selection, this.range);
  }

  private listen(): void {
    const { stage, navigation, selection, range, search, help } = this;
    listenToKeys({ page: this, stage, navigation, selection, range, search, help, nextTheme: () => this.nextTheme() });
    new ResizeObserver(() => this.redraw()).observe(stage.box);
    this.theme.onChange(() => this.applyTheme());
    addEventListener('hashchange', () => {
      if (this.config.one_at_a_time && runOfLink(location.hash) !== this.view.run) return location.reload();
      readLink(location.hash, this.view);
      this.layOver();
      this.showChoices();
      this.applyTheme();
      void range.show();
      if (this.view.selection) void this.select(this.view.selection, false);
    });
  }

  private applyTheme(): void {
    this.theme.apply();
    this.pictures.paint(this.theme.dark);
    this.refreshLegend();
    this.redraw();
  }
  private nextTheme(): void {
    this.theme.next();
    this.applyTheme();
    this.changed();
  }

  private say(text: string): void {
    this.notice.textContent = text;
    this.notice.hidden = false;
    window.clearTimeout(this.noticeTimer); // of the notice before, which would take this one away
    this.noticeTimer = window.setTimeout(() => (this.notice.hidden = true), NOTICE_TIME);
  }
  private async copyLink(): Promise<void> {
    this.link.write();
    this.say((await copyText(location.href)) ? 'Copied a link to this view.' : location.href);
  }

  /** The step of a point of the search, where the page has it. */
  private showPoint(point: string, text: string): void {
    const kept = this.config.runs.find((run) => run.prefix === `front/${point}/`);
    if (kept) this.showRun(kept.prefix);
    else this.say(visible(text));
  }
  /** The page opens anew at it. */
  private showRun(prefix: string): void {
    location.hash = prefix ? new URLSearchParams({ run: prefix }).toString() : 'run=';
  }

  private sectionsChanged(): void {
    this.refreshLegend();
    this.changed();
  }
  /** Runs beside each other are laid over the same: the host, which every run has. */
  private layOver(): void {
    const over = this.view.over ?? (this.runs.length > 1 ? 'host' : undefined);
    if (over) for (const run of this.runs) run.layOver(over);
  }

  /** The bar's controls as the view has it. */
  private showChoices(): void {
    const over = document.querySelector<HTMLSelectElement>('select.over'), stacking = document.querySelector<HTMLSelectElement>('select.stacking');
    if (over) over.value = this.runs[0].over;
    if (stacking) stacking.value = this.scene.stacking;
    const limit = document.querySelector<HTMLInputElement>('.toggle.limit input');
    if (limit) limit.checked = this.scene.toLimit;
  }

  private refreshLegend(): void {
    this.legendBox.replaceChildren(buildLegend(this.scene, this.theme.ink, (key, only) => this.toggle(key, only)));
  }
  private toggle(key: string, only: boolean): void {
    const { hidden } = this.view;
    if (only) {
      const [group] = key.split(':');
      const keys = [...this.legendBox.querySelectorAll<HTMLElement>('[data-key]')].map((item) => item.dataset.key!).filter((of) => of.startsWith(`${group}:`));
      const alone = keys.every((of) => (of === key) !== hidden.has(of));
      for (const of of keys)
        if (alone || of === key) hidden.delete(of);
        else hidden.add(of);
    } else if (!hidden.delete(key)) hidden.add(key);
    this.refreshLegend();
    this.changed();
  }

  private async fillPanel(): Promise<void> {
    const parts: HTMLElement[] = [];
    const extra = async <T>(name: string) => (this.config.extras.includes(name) ? ((await json<T | null>(this.source, name)) ?? undefined) : undefined);
    const compare = await extra<{ [key: string]: unknown }>('compare');
    const pictures = await extra<Picture[]>('pictures');
    if (pictures?.length) this.pictures.show(pictures, this.theme.dark);
    const answers: HTMLElement[] = [];
    if (this.view.run) answers.push(backButton(() => this.showRun('')));
    for (const run of this.runs) {
      const answer = await extra<Answer>(`${run.prefix}answer`);
      if (answer) answers.push(answerSection(answer, this.scene.several ? run.label : ''));
      this.scene.capacities.push(answer?.capacity_bytes ? { bytes: answer.capacity_bytes, of: answer.capacity_of } : undefined);
    }
    if (this.scene.capacity !== undefined) {
      document.querySelector('.limit-place')!.replaceWith(limitToggle(this.scene, () => this.changed()));
      this.refreshLegend();
      this.redraw();
    }
    if (!compare) this.answers.append(...answers);
    if (compare) parts.push(section('Difference', true, compareSection(compare, this.runs.map((run) => run.label))), ...answers);
    for (const run of this.runs) {
      const label = this.scene.several ? ` ${run.label}` : '';
      const ranks = await extra<Ranks>(`${run.prefix}ranks`);
      if (ranks) parts.push(section(`${ranks.title}${label}`, !compare, ranksSection(run, ranks, (rank) => {
        const row = run.ranks?.rowOf(rank) ?? -1;
        if (row >= 0) void this.select({ kind: 'row', run: this.runs.indexOf(run), id: row }, false);
      })));
      await run.ranksHere;
      if (run.ranks?.text.paths.length) parts.push(section(`Critical path over the ranks${label}`, false, pathSection(run.ranks)));
      const explain = await extra<{ [key: string]: unknown }>(`${run.prefix}explain`);
      if (explain) parts.push(section(`Why is memory over-allocated?${label}`, !compare, explainSection(run, explain)));
      const time = (await extra<TimeReport>(`${run.prefix}time`)) ?? (await extra<TimeReport>(`${run.prefix}waits`));
      if (time) {
        run.setTime(time);
        this.sectionsChanged();
        if (this.view.selection?.kind === 'wait') void this.select(this.view.selection, false);
        parts.push(section(`Where does the time go?${label}`, !compare, timeSection(run, time, (wait) => void this.select({ kind: 'wait', run: this.runs.indexOf(run), id: wait }, true))));
      }
      const peaks = peaksTable(run);
      if (peaks) parts.push(section(`Peaks${label}`, !compare, peaks));
      parts.push(section(visible(`Run: ${run.meta.headline}`), !compare && !explain, runSection(run)));
    }
    this.panel.append(...parts);
    const nav = el('nav', { className: 'sections' }, ...parts.filter((part) => part.dataset.title).map((part) =>
      button(part.dataset.title!, 'shows that part of the panel', () => {
        if (part instanceof HTMLDetailsElement) part.open = true;
        part.scrollIntoView();
      }, 'link')));
    this.answers.append(nav);
  }
}
