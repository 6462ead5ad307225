// What a search tried: its picture above the charts, and the step of each point that tune --front kept.
import assert from 'node:assert/strict';

export async function searchChecks({ check, open, settle, shot }) {
  await check('a click on a point of a search shows its step, and back', async () => {
    const { page, close } = await open('tuned');
    const answer = () => page.locator('.panel .answer').first().innerText();
    const best = await answer();
    const marks = page.locator('.picture [data-point]');
    assert.ok((await marks.count()) > 10, 'every point has a mark');
    // Those that the front kept are the ones whose step is at hand: the others say what they were.
    const shown = [];
    const told = [];
    for (let i = 0; i < (await marks.count()) && shown.length === 0; ++i) {
      // The page opens anew at a step, which takes what the machine takes: one of the two comes, however late.
      await page.evaluate(() => (document.querySelector('.notice').textContent = ''));
      await marks.nth(i).dispatchEvent('click');
      await page.waitForFunction(
        () => document.querySelector('.back') || document.querySelector('.notice')?.textContent, null, { timeout: 30_000 });
      if ((await page.locator('.back').count()) > 0) shown.push(i);
      else {
        told.push(i);
        assert.match(await page.locator('.notice').textContent(), /ms.*GiB/);
      }
    }
    assert.equal(shown.length, 1, 'the step of one of the front is shown');
    await settle(page);
    assert.notEqual(await answer(), best);
    await page.locator('.back').first().click();
    await settle(page);
    assert.equal(await answer(), best);
    // A notice stands its own 2.5 s, not until those of the one before are over.
    assert.ok(told.length > 0, 'a point that the front did not keep says what it was');
    // The page's own timers run in their order, so that a slow machine changes nothing.
    const stands = await marks.nth(told[0]).evaluate(async (mark) => {
      const wait = (ms) => new Promise((done) => setTimeout(done, ms));
      const click = () => mark.dispatchEvent(new MouseEvent('click', { bubbles: true }));
      click();
      await wait(1500);
      click();
      await wait(1500);
      return !document.querySelector('.notice').hidden;
    });
    assert.ok(stands, 'a second notice outlives the time of the first');
    await close();
  });

  await check('on a narrow screen the charts keep their height, below the picture', async () => {
    const { page, close } = await open('tuned');
    await page.setViewportSize({ width: 420, height: 900 });
    await settle(page);
    const [stage, picture, wide] = await page.evaluate(() => {
      const box = (name) => document.querySelector(name).getBoundingClientRect();
      return [box('.stage'), box('.pictures'), document.documentElement.scrollWidth];
    });
    assert.ok(stage.height >= 340, `the charts have ${stage.height} pixels`);
    assert.ok(stage.top >= picture.bottom, 'nothing lies over the picture');
    assert.equal(wide, 420, 'nothing needs scrolling to the side');
    await shot(page, 'tuned-420');
    await close();
  });
}
