// What page_test.mjs checks of where the time goes: waits of the compute stream, and pages of several ranks: the heat
// map, the critical path over them, each rank's lanes.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';

/** Takes what page_test.mjs has under these names. */
export async function timeChecks({ check, open, settle, view, layout, shot, pages }) {
  await check('waits of the compute stream have their causes, as explain --time says', async () => {
    for (const name of ['plan', 'l1b_implicit']) {
      const { page, close } = await open(name);
      await page.locator('.time .causes').waitFor();
      await settle(page);
      const of = JSON.parse(execFileSync(process.env.FORESHARD, ['explain', `${pages}/${name}.db`, '--time', '--json', '--quiet'], { encoding: 'utf8', maxBuffer: 2 ** 28, stdio: ['ignore', 'pipe', 'ignore'] }));
      const shown = await page.evaluate(() => [...document.querySelectorAll('.causes [data-ns]')].map((cell) => Number(cell.dataset.ns)));
      assert.deepEqual(shown, [of.step_ns, of.compute_ns, ...of.causes.map((cause) => cause.time_ns)], 'page and explain --time --json');
      assert.equal(shown.slice(1).reduce((sum, part) => sum + part, 0), of.step_ns, 'compute and waits are the step');
      await page.locator('.causes .link').nth(1).click();
      await settle(page);
      const { selection } = await view(page);
      assert.equal(selection.kind, 'wait');
      const text = await page.locator('.selection-box').innerText();
      assert.match(text, /Why the compute stream waits/);
      assert.ok(text.includes(of.causes[1].title), text);
      const drawn = await page.evaluate(() => {
        const { scene } = window.foreshard;
        const row = scene.layout.rows.findIndex((of) => of.kind === 'waits');
        const wait = scene.runs[0].waits[window.foreshard.view.selection.id];
        return { row, x: scene.layout.frame.x((wait.from + wait.to) / 2), y: scene.layout.lanes.y + (row + 0.5) * 19 - scene.view.scroll };
      });
      assert.ok(drawn.row > 0, 'a lane of waits');
      await page.keyboard.press('Escape');
      const { stage } = await layout(page);
      await page.mouse.click(stage.x + drawn.x, stage.y + drawn.y);
      await settle(page);
      assert.equal((await view(page)).selection?.id, selection.id, 'a click in the lane selects it');
      await page.keyboard.press('Escape');
      await page.keyboard.press('f');
      await settle(page);
      await shot(page, `${name}-waits`);
      await close();
    }
  });

  await check('lanes of links carry what explain --time says', async () => {
    for (const name of ['plan', 'l1b_implicit']) {
      const { page, close } = await open(name);
      await page.locator('.time .links').waitFor();
      await settle(page);
      const of = JSON.parse(execFileSync(process.env.FORESHARD, ['explain', `${pages}/${name}.db`, '--time', '--no-remedies', '--json', '--quiet'], { encoding: 'utf8', maxBuffer: 2 ** 28, stdio: ['ignore', 'pipe', 'ignore'] }));
      const [nvlink] = of.links.links;
      const shown = await page.evaluate(() => window.foreshard.runs[0].time.links.links.map(({ load, ...rest }) => rest));
      assert.deepEqual(shown, of.links.links.map(({ load, ...rest }) => rest), 'page and explain --time --json');
      // The lane's area over the step is the step's bytes.
      const drawn = await page.evaluate(([begin, end]) => {
        const { scene, runs: [run] } = window.foreshard;
        const origin = run.meta.origin.lanes;
        let bytes = 0, best = [0, 0, 0];
        run.links[0].each(begin - origin, end - origin, (from, to, rate) => {
          bytes += (Math.min(to, end - origin) - Math.max(from, begin - origin)) * rate;
          if (from >= begin - origin && to - from > best[1] - best[0]) best = [from, to, rate];
        });
        const row = scene.layout.rows.findIndex((one) => one.kind === 'link');
        return { bytes, rate: best[2], row, x: scene.layout.frame.x((best[0] + best[1]) / 2), title: scene.layout.rows[row].title };
      }, [of.begin_ns, of.end_ns]);
      assert.ok(Math.abs(drawn.bytes / nvlink.bytes - 1) < 1e-6, `${drawn.bytes} of ${nvlink.bytes}`);
      assert.equal(drawn.title, `NVLink (${nvlink.most_gb_s.toFixed(0)} GB/s)`);
      await page.evaluate((row) => { const { scene: { layout: { rows, lanes } }, view } = window.foreshard; view.scroll = Math.max(0, Math.min(row * 19 - 60, rows.length * 19 - lanes.height)); window.foreshard.redraw(); }, drawn.row);
      await settle(page);
      const y = await page.evaluate((row) => { const { scene } = window.foreshard; return scene.layout.lanes.y + (row + 0.5) * 19 - scene.view.scroll; }, drawn.row);
      const { stage } = await layout(page);
      await page.mouse.move(stage.x + drawn.x, stage.y + y);
      assert.match(await page.locator('.tooltip').innerText(), new RegExp(`NVLink[^]*carries[^]*${drawn.rate.toFixed(1)} GB/s`));
      for (const width of [900, 1280, 1600]) {
        await page.setViewportSize({ width, height: 900 });
        for (const theme of ['light', 'dark']) {
          await settle(page);
          assert.ok(await page.evaluate(() => { const panel = document.querySelector('.panel'); return panel.scrollWidth <= panel.clientWidth + 1; }), `nothing of the panel is clipped at ${width}`);
          await shot(page, `${name}-links-${width}-${theme}`);
          await page.keyboard.press('t');
        }
      }
      await close();
    }
  });

  await check('the heat map of ranks', async () => {
    const { page, close } = await open('ranks');
    const box = () => page.evaluate(() => {
      const [{ box }] = window.foreshard.scene.layout.ranks;
      const stage = document.querySelector('.stage').getBoundingClientRect();
      return { x: stage.x + box.x, y: stage.y + box.y, width: box.width, height: box.height };
    });
    const map = await box();
    // A moment in which rank 0 waits: under it the tooltip says for whom.
    const time = await page.evaluate(() => {
      const { runs: [{ ranks }], view: { from, to } } = window.foreshard;
      let longest;
      ranks.each(0, from, to, (cell) => { if (cell.forRank >= 0 && (!longest || cell.to - cell.from > longest.to - longest.from)) longest = cell; });
      return { ...longest, share: ((longest.from + longest.to) / 2 - from) / (to - from) };
    });
    assert.equal(time.forRank, 2);
    await page.mouse.move(map.x + time.share * map.width, map.y + map.height / 8);
    assert.match(await page.locator('.tooltip').innerText(), /rank 0[^]*waits for rank 2/);
    await page.mouse.click(map.x + map.width / 2, map.y + (map.height * 5) / 8);
    await settle(page);
    assert.match(await page.locator('.selection-box').innerText(), /rank 2[^]*compute[^]*lanes of rank 2/);
    const top = await page.evaluate(() => {
      const { scene: { layout: { rows } }, view: { scroll } } = window.foreshard;
      return rows.slice(Math.floor(scroll / 19)).map((row) => row.title);
    });
    assert.ok(top.includes('rank 2: compute'), top.join(', '));
    await shot(page, 'ranks');
    // The path's visits follow one another, and are told in words.
    const path = await page.evaluate(() => window.foreshard.runs[0].ranks.text.paths.at(-1).visits);
    assert.ok(path.every((visit, i) => i === 0 || visit.from === path[i - 1].to));
    assert.ok(path.some((visit) => visit.rank === 2));
    assert.match(await page.locator('.rank-path').textContent(), /rank 2: .*ms/);
    await page.locator('.legend [data-key="state:path"]').click();
    assert.ok((await view(page)).hidden.includes('state:path'));
    // From the keyboard: the numbers of the panel's table.
    await page.locator('.ranks button.link', { hasText: '1' }).first().press('Enter');
    await settle(page);
    assert.match(await page.locator('.selection-box').innerText(), /rank 1/);
    assert.match(page.url(), /select=row%3A0%3A1|select=row:0:1/);
    await page.locator('label.toggle', { hasText: 'ranks' }).locator('input').uncheck();
    await settle(page);
    assert.equal(await page.evaluate(() => window.foreshard.scene.layout.ranks.length), 0);
    await close();
  });

  if (process.env.FORESHARD_TRUTH)
    await check('every rank has lanes', async () => {
      const { page, close } = await open('slow');
      const lanes = await page.evaluate(() => window.foreshard.runs[0].meta.lanes.filter((lane) => lane.source === 'rank').map((lane) => lane.name));
      assert.deepEqual(lanes, [1, 2, 3, 4, 5, 6, 7].flatMap((rank) => [`rank ${rank}: compute`, `rank ${rank}: collectives`]));
      const track = await page.evaluate(() => {
        const { meta } = window.foreshard.runs[0];
        return meta.tracks.findIndex((of) => meta.lanes[of.lane].name === 'rank 5: compute');
      });
      const id = await page.evaluate(async (at) => {
        const [run] = window.foreshard.runs;
        const { levels } = run.meta.tracks[at];
        const tile = await run.tiles.load('track', `track/${at}/${levels.length - 1}/0`);
        return tile.first_op[10];
      }, track);
      await page.evaluate((op) => window.foreshard.select({ kind: 'rank', run: 0, id: op }, true), id);
      await settle(page);
      assert.match(await page.locator('.selection-box').innerText(), /of rank 5/);
      await shot(page, 'slow-ranks');
      await close();
    });
}
