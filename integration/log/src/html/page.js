'use strict';
/* Draws the timelines from the JSON in #data. Whatever comes from a log is set as text, never as markup. */
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const words = data.words, NS = 'http://www.w3.org/2000/svg';
  const ENDS = ['complete', 'incomplete', 'failed', 'timed_out', 'unfinished'];
  const KINDS = ['held', 'unreadable', 'busy'];
  /* As many marks, and cycles that were not complete, are drawn and listed. */
  const MARKS = 400, WORSE = 2000;
  const GUTTER = 64, LANES = { agent: [24, 8], state: [38, 14], claims: [58, 22], cycles: [86, 40] }, HEIGHT = 130;
  const all = { from: data.from, to: Math.max(data.to, data.from + 1) };
  /* `at` is the moment that the address names. */
  const view = { ...all, at: null };
  const tip = document.getElementById('tip'), live = document.getElementById('live');
  const overview = document.getElementById('overview');

  const el = (name, attributes = {}, text) => {
    const made = name.startsWith('svg:') ? document.createElementNS(NS, name.slice(4)) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const iso = (at) => new Date(at * 1000).toISOString().replace('.000Z', 'Z');
  const stamp = (at) => iso(at).slice(0, 19).replace('T', ' ');
  const length = (s) => {
    const parts = [[86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']], out = [];
    for (const [unit, name] of parts) {
      const count = Math.floor(s / unit);
      if (count > 0 && out.length < 2) out.push(count + name);
      else if (out.length) break;
      s -= count * unit;
    }
    return out.join(' ') || '0s';
  };
  const counted = (n, one, many) => n + ' ' + (n === 1 ? one : many);
  const word = (index) => (index < 0 ? '' : words[index]);

  /* The lists of each database, from their short form. */
  const databases = [];
  const totals = new Map();
  data.logs.forEach((log) => log.databases.forEach((raw) => {
    const { d, l, k, n, w } = raw.cycles, cycles = [];
    let at = data.from;
    for (let i = 0; i < d.length; i++) {
      at += d[i];
      cycles.push({ kind: 'cycle', from: at, to: at + l[i], end: ENDS[k.charCodeAt(i) - 48], count: n[i] || 1, words: word(w[i] === undefined ? -1 : w[i]) });
    }
    const claims = raw.claims.map(([from, span, kind, who, skips, end, about]) =>
      ({ kind: 'claim', from, to: from + span, of: KINDS[kind], who: word(who), skips, end: word(end), words: word(about) }));
    const states = raw.states.map(([from, span, state, why]) => ({ kind: 'state', from, to: from + span, state: word(state), words: word(why) }));
    const gaps = raw.gaps.map(([from, span, what]) => ({ kind: 'gap', from, to: from + span, words: word(what) }));
    const marks = raw.marks.map(([from, kind, text]) => ({ kind: kind ? 'notice' : 'removed', from, to: from, words: word(text) }));
    const runs = log.runs.map(([from, span, end, text]) => ({ kind: 'run', from, to: from + span, end, words: word(text) }));
    for (const claim of claims) if (claim.of === 'held') totals.set(claim.who, (totals.get(claim.who) || 0) + claim.to - claim.from + 1);
    const section = document.getElementById(raw.id);
    databases.push({ name: raw.name, short: raw.short, section, cycles, claims, states, gaps, marks, runs, drawn: '', here: -1, listed: [], whole: [...section.querySelectorAll('table.holders tbody tr')] });
  }));
  const order = [...totals.entries()].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  const colours = new Map(order.map(([name], i) => [name, 'h' + Math.min(i, 7)]));

  const title = (span) => {
    switch (span.kind) {
      case 'claim': return span.of === 'held' ? 'Claimed by ' + span.who : span.of === 'busy' ? 'A cycle or a claim had the gate' : 'Lock could not be checked';
      case 'state': return 'State: ' + span.state;
      case 'gap': return 'No line';
      case 'removed': return 'Stale lock of ' + span.words + ' removed';
      case 'notice': return 'Notice';
      case 'run': return span.words;
      case 'many': return span.title;
      default: return (span.count > 1 ? counted(span.count, 'cycle', 'cycles') : 'Cycle') + ': ' + span.end.replace('_', ' ');
    }
  };
  const details = (span) => {
    const out = [];
    if (span.from === span.to) out.push(stamp(span.from));
    else out.push(stamp(span.from) + ' to ' + stamp(span.to) + ', ' + length(span.to - span.from));
    if (span.kind === 'claim') {
      if (span.words) out.push(span.words);
      out.push(counted(span.skips, 'skip', 'skips') + '; then: ' + span.end);
    } else if (span.kind === 'run') out.push(span.end);
    else if (span.kind !== 'removed' && span.words) out.push(span.words);
    return out;
  };
  const showTip = (span, x, y) => {
    tip.replaceChildren(el('b', {}, title(span)), ...details(span).flatMap((line, i) => (i ? [el('br'), line] : [line])));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(6, Math.min(x + 14, innerWidth - box.width - 6)) + 'px';
    tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(6, y - box.height - 12) : y + 18) + 'px';
  };
  const hideTip = () => { tip.hidden = true; };

  /* The first index whose span ends at or after a time; the lists are in the order of time. */
  const first = (list, at) => {
    let low = 0, high = list.length;
    while (low < high) { const middle = (low + high) >> 1; if (list[middle].to < at) low = middle + 1; else high = middle; }
    return low;
  };
  const inView = (list) => list.filter((span) => span.to >= view.from && span.from <= view.to);
  const scale = (width, range) => (at) => ((at - range.from) / (range.to - range.from)) * width;

  const STEPS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 259200, 604800, 1209600, 2592000, 7776000, 31536000];
  const drawAxis = (svg, x, width) => {
    const step = STEPS.find((one) => ((view.to - view.from) / one) * 78 < width) || STEPS[STEPS.length - 1];
    for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
      const text = step >= 86400 ? iso(at).slice(5, 10) : at % 86400 === 0 ? iso(at).slice(5, 10) : iso(at).slice(11, step < 60 ? 19 : 16);
      svg.append(el('svg:line', { class: 'grid', x1: GUTTER + x(at), x2: GUTTER + x(at), y1: 18, y2: HEIGHT }));
      if (x(at) < width - 30) svg.append(el('svg:text', { x: GUTTER + x(at) + 3, y: 12 }, text));
    }
  };
  const rect = (lane, x, span, attributes) => {
    const [top, height] = LANES[lane], from = Math.max(0, x(Math.max(span.from, view.from)));
    const width = Math.max(x(Math.min(span.to, view.to)) - from, 2);
    return el('svg:rect', { x: GUTTER + from, y: top, width, height, rx: Math.min(2, width / 2), 'data-kind': span.kind, 'data-from': iso(span.from), 'data-to': iso(span.to), ...attributes });
  };
  const cut = (text, most) => (text.length > most ? text.slice(0, Math.max(1, Math.floor(most) - 1)) + '…' : text);
  /* Claims that would share a pixel are drawn as one. */
  const clustered = (list, x) => {
    const out = [];
    for (const span of list) {
      const last = out[out.length - 1];
      const isSmall = (one) => x(one.to) - x(one.from) < 2;
      if (last && isSmall(span) && isSmall(last.spans[last.spans.length - 1]) && x(span.from) - x(last.to) < 1.5) {
        last.to = Math.max(last.to, span.to);
        last.spans.push(span);
      } else out.push({ from: span.from, to: span.to, spans: [span] });
    }
    return out;
  };
  const drawCycles = (db, svg, x, width) => {
    const [top, height] = LANES.cycles, columns = Math.max(1, Math.ceil(width / 2)), paths = {}, counts = {};
    const buckets = Array.from({ length: columns }, () => null);
    let most = 0;
    for (let i = first(db.cycles, view.from); i < db.cycles.length && db.cycles[i].from <= view.to; i++) {
      const run = db.cycles[i], from = Math.max(0, x(run.from)), to = Math.min(width, x(run.to));
      counts[run.end] = (counts[run.end] || 0) + run.count;
      const begin = Math.min(columns - 1, Math.floor(from / 2)), end = Math.min(columns - 1, Math.max(begin, Math.floor((to - 0.01) / 2)));
      for (let column = begin; column <= end; column++) {
        const bucket = (buckets[column] = buckets[column] || {});
        bucket[run.end] = (bucket[run.end] || 0) + run.count / (end - begin + 1);
        most = Math.max(most, bucket.complete || 0);
      }
    }
    /* A cycle more or less in a column is the grid's doing: a column is as high as its neighbours. */
    const near = (column) => Math.max(...[column - 1, column, column + 1].map((one) => (buckets[one] && buckets[one].complete) || 0));
    buckets.forEach((bucket, column) => {
      if (!bucket) return;
      let y = top + height;
      for (const end of ENDS) {
        if (!bucket[end]) continue;
        const tall = end === 'complete' ? 4 + (height - 20) * Math.sqrt(near(column) / most) : Math.min(y - top, 6 + 10 * Math.min(1, bucket[end] / (most || bucket[end])));
        paths[end] = (paths[end] || '') + 'M' + (GUTTER + column * 2) + ' ' + y.toFixed(1) + 'v' + (-tall).toFixed(1) + 'h2v' + tall.toFixed(1) + 'z';
        y -= tall;
      }
    });
    for (const end of ENDS) if (paths[end]) svg.append(el('svg:path', { class: end, d: paths[end], 'data-kind': 'cycles', 'data-end': end, 'data-count': counts[end] }));
    return counts;
  };

  const draw = (db) => {
    const figure = db.section.querySelector('.timeline'), width = figure.clientWidth - GUTTER;
    const key = view.from + ' ' + view.to + ' ' + width;
    if (width <= 0 || db.drawn === key) return;
    db.drawn = key;
    const x = scale(width, view), svg = el('svg:svg', { viewBox: `0 0 ${width + GUTTER} ${HEIGHT}`, height: HEIGHT, 'aria-hidden': 'true' });
    drawAxis(svg, x, width);
    for (const [lane, [top, height]] of Object.entries(LANES)) {
      svg.append(el('svg:text', { x: 0, y: top + height / 2 + 4 }, lane), el('svg:line', { class: 'lane', x1: GUTTER, x2: width + GUTTER, y1: top + height + 1.5, y2: top + height + 1.5 }));
    }
    const spans = [];
    const add = (span, node) => { node.span = span; spans.push([span, node]); svg.append(node); };
    for (const span of inView(db.runs)) {
      add(span, rect('agent', x, span, { class: 'run' }));
      if (span.end !== 'running' && span.to <= view.to) svg.append(el('svg:rect', { class: span.end.startsWith('lost') ? 'run lost' : 'stop', x: GUTTER + x(span.to) - 2, y: 20, width: 3, height: 15, 'data-kind': 'stop' }));
    }
    inView(db.gaps).forEach((span) => add(span, rect('agent', x, span, { class: 'gap' })));
    inView(db.states).forEach((span) => add(span, rect('state', x, span, { class: 's-' + span.state, 'data-state': span.state })));
    const clusters = clustered(inView(db.claims), x), named = new Set();
    for (const [place, cluster] of clusters.entries()) {
      const [span] = cluster.spans, colour = (one) => (one.of === 'held' ? colours.get(one.who) : one.of);
      if (cluster.spans.length === 1) {
        const node = rect('claims', x, span, { class: colour(span), 'data-holder': span.who, 'data-of': span.of, 'data-skips': span.skips });
        add(span, node);
        const left = Number(node.getAttribute('x')), right = left + Number(node.getAttribute('width'));
        if (span.of === 'held') {
          /* In the bar, or beside the first of this holder that has room up to the next bar. */
          const next = clusters[place + 1], wide = Math.min(26, span.who.length) * 6.6;
          const inside = right - left - 10, beside = (next ? GUTTER + x(next.from) : width + GUTTER) - right - 8;
          const isBeside = inside < wide && !named.has(span.who) && beside >= Math.max(inside, Math.min(wide, 40));
          if (isBeside || inside > 30) {
            named.add(span.who);
            svg.append(el('svg:text', { class: isBeside ? 'beside' : 'label', x: isBeside ? right + 4 : left + 5, y: 73 }, cut(span.who, (isBeside ? beside : inside) / 6.6)));
          }
        }
      } else {
        const names = [...new Set(cluster.spans.map((one) => one.who || one.of))];
        const many = { kind: 'many', from: cluster.from, to: cluster.to, title: counted(cluster.spans.length, 'claim', 'claims'), words: names.slice(0, 8).join(', ') + (names.length > 8 ? ', …' : '') };
        add(many, rect('claims', x, many, { class: 'many ' + colour(span), 'data-claims': cluster.spans.length }));
      }
    }
    const counts = drawCycles(db, svg, x, width), marks = inView(db.marks);
    for (const mark of marks.slice(-MARKS)) {
      const at = GUTTER + x(mark.from), node = el('svg:path', { class: mark.kind, d: `M${at} 55l-3.5-6h7z`, 'data-kind': mark.kind, 'data-from': iso(mark.from) });
      add(mark, node);
    }
    if (view.at !== null) svg.append(el('svg:line', { class: 'at', x1: GUTTER + x(view.at), x2: GUTTER + x(view.at), y1: 16, y2: HEIGHT }));
    figure.replaceChildren(svg);
    const worse = db.cycles.slice(first(db.cycles, view.from)).filter((run) => run.from <= view.to && run.end !== 'complete');
    db.listed = [...spans, ...worse.slice(0, WORSE).map((run) => [run, null])].sort((a, b) => a[0].from - b[0].from);
    db.here = -1;
    const notes = [];
    if (marks.length > MARKS) notes.push((marks.length - MARKS) + ' earlier marks');
    if (worse.length > WORSE) notes.push('of ' + worse.length + ' incomplete and failed cycles the list has ' + WORSE);
    if (db.cycles.some((run) => run.count > 1)) notes.push('neighbouring cycles that ended alike are one');
    if (data.lost) notes.push(counted(data.lost, 'text of the log', 'texts of the log') + ' for the size of the page');
    lanes(db, counts, notes);
    holders(db);
    const list = db.section.querySelector('details.list');
    list.querySelector('summary').textContent = counted(db.listed.length, 'entry', 'entries') + ' of this range as a list';
    if (list.open) fill(db, list);
  };

  /* The legend of each lane, with what occurs in the range, and what was left out. */
  const lanes = (db, counts, notes) => {
    const box = db.section.querySelector('dl.lanes'), runs = inView(db.runs), claims = inView(db.claims);
    const some = (list, fits, entry) => (list.some(fits) ? [entry] : []);
    const ended = (run) => run.end !== 'running' && run.to <= view.to, lost = (run) => run.end.startsWith('lost');
    const states = [...new Set(inView(db.states).map((span) => span.state))];
    const held = new Set(claims.filter((claim) => claim.of === 'held').map((claim) => claim.who));
    const known = order.map(([name]) => name).filter((name) => held.has(name));
    const own = known.filter((name) => colours.get(name) !== 'h7'), others = known.length - own.length;
    const rows = {
      agent: [...some(runs, () => true, ['run', 'ran']), ...some(runs, (run) => ended(run) && !lost(run), ['stop', 'stopped']),
        ...some(runs, (run) => ended(run) && lost(run), ['run lost', 'killed or crashed']), ...some(inView(db.gaps), () => true, ['gap', 'no line'])],
      state: [...states.map((state) => ['s-' + state, state]), ...some(inView(db.marks), (mark) => mark.kind === 'notice', ['notice', 'notice']),
        ...some(inView(db.marks), (mark) => mark.kind === 'removed', ['removed', 'stale lock removed'])],
      claims: [...own.map((name) => [colours.get(name), name]), ...(others ? [['h7', counted(others, 'other holder', 'other holders')]] : []),
        ...some(claims, (claim) => claim.of === 'unreadable', ['unreadable', 'lock that cannot be checked']), ...some(claims, (claim) => claim.of === 'busy', ['busy', 'gate was busy'])],
      cycles: ENDS.filter((end) => counts[end]).map((end) => [end, end.replace('_', ' ')]),
    };
    if (claims.length) rows.cycles.push(['none', 'skipped: none while there is a claim']);
    box.replaceChildren(...Object.entries(rows).filter(([, entries]) => entries.length).flatMap(([lane, entries]) => {
      const dd = el('dd');
      for (const [colour, text] of entries) {
        const one = el('span'), swatch = el('svg:svg', { class: 'swatch', 'aria-hidden': 'true' });
        swatch.append(colour === 'notice' || colour === 'removed' ? el('svg:path', { class: colour, d: 'M5 9l-4-7h8z' }) : el('svg:rect', { class: colour, width: 10, height: 10, rx: 2 }));
        one.append(swatch, cut(text, 40));
        dd.append(one, ' ');
      }
      return [el('dt', {}, lane), dd];
    }));
    if (notes.length) box.append(el('dt', {}, 'left out'), el('dd', {}, notes.join('; ')));
  };

  const isWhole = () => view.from === all.from && view.to === all.to;
  const holders = (db) => {
    const body = db.section.querySelector('table.holders tbody');
    if (!body) return;
    const heading = body.closest('div:not(.wide)').querySelector('h3');
    db.heading = db.heading || heading.textContent;
    /* The sums of the whole log, of which the page may have only the latest claims. */
    if (isWhole()) {
      heading.textContent = db.heading;
      for (const row of db.whole) {
        const name = row.cells[0];
        if (name.querySelector('svg')) continue;
        const swatch = el('svg:svg', { class: 'swatch', 'aria-hidden': 'true' });
        swatch.append(el('svg:rect', { class: colours.get(name.textContent) || 'h7', width: 10, height: 10, rx: 2 }));
        name.prepend(swatch);
      }
      return body.replaceChildren(...db.whole);
    }
    heading.textContent = 'Holders in this range';
    const rows = new Map();
    for (const claim of inView(db.claims)) {
      if (claim.of !== 'held') continue;
      const row = rows.get(claim.who) || { skips: 0, lengths: [] };
      row.lengths.push(claim.to - claim.from);
      row.skips += claim.skips;
      rows.set(claim.who, row);
    }
    const sum = (lengths) => lengths.reduce((a, b) => a + b, 0);
    const sorted = [...rows.entries()].sort((a, b) => sum(b[1].lengths) - sum(a[1].lengths));
    body.replaceChildren(...sorted.slice(0, 30).map(([name, row]) => {
      row.lengths.sort((a, b) => a - b);
      const tr = el('tr'), td = el('td'), swatch = el('svg:svg', { class: 'swatch', 'aria-hidden': 'true' });
      swatch.append(el('svg:rect', { class: colours.get(name), width: 10, height: 10, rx: 2 }));
      td.append(swatch, name);
      const half = row.lengths.length / 2;
      const median = (row.lengths[Math.floor(half)] + row.lengths[Math.ceil(half) - 1]) / 2;
      const cells = [row.lengths.length, row.skips, length(median), length(row.lengths[row.lengths.length - 1]), length(sum(row.lengths))];
      tr.append(td, ...cells.map((cell) => el('td', { class: 'n' }, cell)));
      return tr;
    }));
    if (sorted.length > 30) { const tr = el('tr'); tr.append(el('td', { colspan: 6 }, 'and ' + (sorted.length - 30) + ' more')); body.append(tr); }
    if (!sorted.length) { const tr = el('tr'); tr.append(el('td', { colspan: 6 }, 'no claim in this range')); body.append(tr); }
  };

  const link = (db, at) => '#' + encodeURIComponent(db.short) + '@' + iso(Math.round(at));
  const fill = (db, list) => {
    const rows = db.listed.slice(0, 500).map(([span]) => {
      const tr = el('tr'), [when, ...rest] = details(span);
      const time = el('td', { class: 't' });
      time.append(el('a', { href: link(db, span.from) }, stamp(span.from)));
      tr.append(time, el('td', { class: 'n' }, span.to > span.from ? length(span.to - span.from) : ''), el('td', {}, title(span)), el('td', {}, rest.join('; ')));
      tr.title = when;
      return tr;
    });
    const table = el('table'), head = el('tr'), body = el('tbody'), box = el('div', { class: 'wide' });
    ['from (UTC)', 'for', 'what', 'the log says'].forEach((text, i) => head.append(el('th', i === 1 ? { class: 'n', scope: 'col' } : { scope: 'col' }, text)));
    body.append(...rows);
    table.append(el('thead'), body);
    table.firstChild.append(head);
    box.append(table);
    const old = list.querySelector('.wide, p');
    if (old) old.remove();
    if (db.listed.length > 500) box.append(el('p', { class: 'figures' }, 'and ' + (db.listed.length - 500) + ' more: choose a shorter range'));
    list.append(box);
  };

  /* The overview: the worst that happened at each moment, in all databases. */
  const drawOverview = () => {
    const width = overview.clientWidth, height = overview.clientHeight, x = scale(width, all), columns = Math.ceil(width / 2);
    const RANKS = ['', 'complete', 's-skipped', 's-local_only', 'incomplete', 'unreadable', 'failed'];
    const worst = new Uint8Array(columns);
    const put = (from, to, rank) => {
      const end = Math.min(columns - 1, Math.floor(x(to) / 2));
      for (let column = Math.max(0, Math.floor(x(from) / 2)); column <= end; column++) worst[column] = Math.max(worst[column], rank);
    };
    for (const db of databases) {
      if (db.section.hidden) continue;
      db.cycles.forEach((run) => put(run.from, run.to, { complete: 1, incomplete: 4, unfinished: 1 }[run.end] || 6));
      db.claims.forEach((claim) => put(claim.from, claim.to, claim.of === 'unreadable' ? 5 : 2));
      db.states.forEach((span) => put(span.from, span.to, { local_only: 3, failed: 6, not_serving: 6 }[span.state] || 0));
    }
    const paths = {};
    worst.forEach((rank, column) => {
      if (!rank) return;
      const tall = [0, 8, 14, 18, 20, 22, 26][rank] * (height / 40);
      paths[rank] = (paths[rank] || '') + `M${column * 2} ${height}v${-tall}h2v${tall}z`;
    });
    overview.setAttribute('viewBox', `0 0 ${width} ${height}`);
    overview.replaceChildren(...Object.entries(paths).map(([rank, d]) => el('svg:path', { class: RANKS[rank], d })));
    const [from, to] = [x(view.from), Math.max(x(view.to), x(view.from) + 3)];
    overview.append(el('svg:rect', { class: 'shade', x: 0, y: 0, width: Math.max(0, from), height }), el('svg:rect', { class: 'shade', x: to, y: 0, width: Math.max(0, width - to), height }),
      ...(isWhole() ? [] : [el('svg:rect', { class: 'brush', x: from + 0.5, y: 0.5, width: Math.max(2, to - from - 1), height: height - 1 })]));
    if (!isWhole()) for (const at of [from, to]) overview.append(el('svg:rect', { class: 'grip', x: at - 2, y: height / 2 - 8, width: 4, height: 16, rx: 2 }));
  };

  let asked = 0;
  const seen = new Set();
  const redraw = () => {
    if (asked) return;
    asked = requestAnimationFrame(() => {
      asked = 0;
      drawOverview();
      seen.forEach((db) => { if (!db.section.hidden) draw(db); });
      for (const button of document.querySelectorAll('.ranges button')) button.setAttribute('aria-pressed', String(isRange(button)));
      from.value = stamp(view.from);
      to.value = stamp(view.to);
    });
  };
  const rangeOf = (button) => (button.dataset.seconds === 'all' ? all : { from: Math.max(all.from, all.to - Number(button.dataset.seconds)), to: all.to });
  const isRange = (button) => { const range = rangeOf(button); return range.from === view.from && range.to === view.to; };
  const address = (hash) => {
    try { history.replaceState(null, '', hash || location.pathname + location.search); } catch (_) { /* a file in a frame */ }
  };
  const go = (begin, end, hash) => {
    hideTip();
    if (!hash && view.at !== null) { view.at = null; databases.forEach((db) => { db.drawn = ''; }); }
    let [low, high] = begin <= end ? [begin, end] : [end, begin];
    low = Math.floor(low); high = Math.ceil(high);
    if (high - low < 10) { const middle = Math.round((low + high) / 2); low = middle - 5; high = middle + 5; }
    const width = Math.min(high - low, all.to - all.from);
    low = Math.max(all.from, Math.min(low, all.to - width));
    view.from = low; view.to = Math.min(all.to, low + width);
    address(hash || (isWhole() ? '' : '#' + iso(view.from) + '/' + iso(view.to)));
    redraw();
  };
  /* `#FROM/TO`, `#DATABASE` and `#DATABASE@TIME`, which is the hour around it. */
  const followed = () => {
    const { hash } = location;
    let text = '';
    try { text = decodeURIComponent(hash.slice(1)); } catch (_) { return undefined; }
    const range = text.split('/').map((part) => Date.parse(part) / 1000);
    if (range.length === 2 && range.every(Number.isFinite)) return go(range[0], range[1]);
    const [, name, time] = text.match(/^(.*?)(?:@([^@]*))?$/s);
    const db = databases.find((one) => one.short === name) || databases.find((one) => one.name === name);
    if (!db) return undefined;
    const at = Date.parse(time) / 1000;
    if (Number.isFinite(at)) {
      view.at = at;
      databases.forEach((one) => { one.drawn = ''; });
      go(at - 1800, at + 1800, hash);
    }
    return db.section.scrollIntoView();
  };
  const zoom = (by, at = (view.from + view.to) / 2) => go(at - (at - view.from) * by, at + (view.to - at) * by);
  const pan = (by) => { const width = view.to - view.from; go(view.from + width * by, view.to + width * by); };

  /* Dragging over an axis chooses a range. */
  const dragged = (node, gutter, range, still, clicked) => {
    const at = (event) => {
      const box = node.getBoundingClientRect();
      return range.from + Math.max(0, Math.min(1, (event.clientX - box.left - gutter) / (box.width - gutter))) * (range.to - range.from);
    };
    let begin = null;
    node.addEventListener('pointerdown', (event) => {
      if (event.button !== 0 || (event.pointerType === 'touch' && gutter)) return;
      begin = { x: event.clientX, at: at(event) };
      node.setPointerCapture(event.pointerId);
    });
    node.addEventListener('pointermove', (event) => {
      if (!begin) { if (still) still(event, at(event)); return; }
      hideTip();
      const svg = node.querySelector('svg') || node, box = svg.getBoundingClientRect();
      svg.querySelectorAll('.choice').forEach((old) => old.remove());
      svg.append(el('svg:rect', { class: 'brush choice', x: Math.max(gutter, Math.min(begin.x, event.clientX) - box.left), y: 0, width: Math.abs(event.clientX - begin.x), height: box.height }));
    });
    node.addEventListener('pointerup', (event) => {
      if (!begin) return;
      const from = begin;
      begin = null;
      node.querySelectorAll('.choice').forEach((old) => old.remove());
      if (Math.abs(event.clientX - from.x) > 5) go(from.at, at(event));
      else if (clicked) clicked(event, from.at);
    });
    node.addEventListener('pointercancel', () => { begin = null; redraw(); });
    node.addEventListener('dblclick', () => go(all.from, all.to));
  };

  const step = (db, by) => {
    if (!db.listed.length) return;
    db.here = Math.max(0, Math.min(db.listed.length - 1, db.here < 0 ? (by > 0 ? 0 : db.listed.length - 1) : db.here + by));
    const [span, node] = db.listed[db.here], figure = db.section.querySelector('.timeline');
    figure.querySelectorAll('.here').forEach((old) => old.classList.remove('here'));
    if (node) node.classList.add('here');
    const box = (node || figure).getBoundingClientRect();
    showTip(span, node ? box.left : box.left + GUTTER + scale(figure.clientWidth - GUTTER, view)(span.from), box.bottom - 10);
    live.textContent = title(span) + '. ' + details(span).join('. ');
  };

  for (const db of databases) {
    const figure = db.section.querySelector('.timeline'), list = db.section.querySelector('details.list');
    dragged(figure, GUTTER, view, (event, at) => {
      if (event.target.span) return showTip(event.target.span, event.clientX, event.clientY);
      const y = event.clientY - figure.getBoundingClientRect().top, [top, height] = LANES.cycles;
      if (y < top || y > top + height) return hideTip();
      const near = (view.to - view.from) / Math.max(1, figure.clientWidth) * 2, run = db.cycles[first(db.cycles, at - near)];
      return run && run.from <= at + near ? showTip(run, event.clientX, event.clientY) : hideTip();
    }, (event, at) => address(link(db, event.target.span ? event.target.span.from : at)));
    figure.addEventListener('pointerleave', hideTip);
    figure.addEventListener('blur', hideTip);
    figure.addEventListener('wheel', (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const box = figure.getBoundingClientRect();
      zoom(event.deltaY > 0 ? 1.3 : 1 / 1.3, view.from + ((event.clientX - box.left - GUTTER) / (box.width - GUTTER)) * (view.to - view.from));
    }, { passive: false });
    figure.addEventListener('keydown', (event) => {
      const keys = {
        ArrowRight: () => (event.shiftKey ? pan(0.25) : step(db, 1)), ArrowLeft: () => (event.shiftKey ? pan(-0.25) : step(db, -1)),
        Home: () => { db.here = -1; step(db, 1); }, End: () => { db.here = -1; step(db, -1); },
        '+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), 0: () => go(all.from, all.to), Escape: hideTip,
      };
      if (keys[event.key] && !event.ctrlKey && !event.altKey && !event.metaKey) { keys[event.key](); event.preventDefault(); }
    });
    list.addEventListener('toggle', () => { if (list.open) fill(db, list); });
  }
  dragged(overview, 0, all);

  const from = document.getElementById('from'), to = document.getElementById('to');
  const typed = () => {
    const [begin, end] = [from, to].map((input) => {
      const [, day, time] = input.value.trim().match(/^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)Z?)?$/) || [];
      const at = Date.parse(day + 'T' + (time || '00:00') + 'Z') / 1000;
      input.setAttribute('aria-invalid', String(!Number.isFinite(at)));
      return at;
    });
    if (Number.isFinite(begin) && Number.isFinite(end)) go(begin, end);
  };
  from.addEventListener('change', typed);
  to.addEventListener('change', typed);
  for (const button of document.querySelectorAll('.ranges button')) {
    if (button.dataset.seconds !== 'all' && Number(button.dataset.seconds) >= all.to - all.from) button.hidden = true;
    button.addEventListener('click', () => { const range = rangeOf(button); go(range.from, range.to); });
  }
  const filter = document.getElementById('filter');
  if (databases.length < 2) filter.parentElement.hidden = true;
  filter.addEventListener('input', () => {
    const wanted = filter.value.toLowerCase();
    for (const db of databases) {
      const claims = (claim) => claim.who.toLowerCase().includes(wanted);
      db.section.hidden = !(db.name.toLowerCase().includes(wanted) || db.claims.some(claims));
    }
    redraw();
  });
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const db = databases.find((one) => one.section === entry.target);
      if (entry.isIntersecting) seen.add(db); else seen.delete(db);
    }
    redraw();
  }, { rootMargin: '400px' });
  databases.forEach((db) => { watcher.observe(db.section); });
  addEventListener('beforeprint', () => { databases.forEach(draw); });
  addEventListener('resize', redraw);
  document.documentElement.classList.add('ready');
  document.querySelectorAll('.needs-script').forEach((node) => { node.hidden = false; });
  followed();
  addEventListener('hashchange', followed);
  databases.slice(0, 20).forEach((db) => { seen.add(db); draw(db); });
  redraw();
})();
