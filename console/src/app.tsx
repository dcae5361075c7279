// The frame of the console: the top bar, the navigation, the view that the address names, and
// the status line.
import { computed, signal } from "@preact/signals";
import { render } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { changes, has, modules, stale, typeOf } from "./core/catalog";
import { browser, ownerEnded, refused } from "./core/door";
import { bind } from "./core/keys";
import { askPermission, markSeen, notices, permission, unseen } from "./core/notices";
import { go, link, place } from "./core/route";
import { connect, lostAt, roundTrip, serviceHash, signOut, status } from "./core/rpc";
import { toggleTheme } from "./core/theme";
import { date, lasted } from "./core/time";
import { Lazy } from "./parts/lazy";
import { addFinder, openPalette, Palette } from "./parts/palette";
import { roving } from "./parts/roving";
import { openSheet, Sheet } from "./parts/sheet";
import { type View, views } from "./views";

const menu = signal(false); // whether a narrow page shows the navigation

// Until it is known what the kernel has, all views are there: the one of the address is loaded at once.
const available = computed(() => views.filter((view) => !view.needs || !modules.value.length || has(view.needs)));
const current = computed(() => available.value.find((view) => view.name === place.value.view) ?? available.value[0]);

/** Whether this browser isn't signed in, and shows nothing that it had to be signed in for. */
const outside = computed(() => status.value === "signed-out" && !serviceHash.value);

function Top() {
  return (
    <header class="top">
      {!outside.value && <button class="menu plain" aria-expanded={menu.value} onClick={() => { menu.value = !menu.value; }}>Menu</button>}
      <a class="name" href={link("call")}>Kernos</a>
      <span class="faint spread">{location.host}</span>
      {!outside.value && <button class="omnibox" onClick={openPalette}><span>Go to…</span><kbd>Ctrl K</kbd></button>}
      <button class="plain" onClick={toggleTheme} aria-label="Light or dark" title="Light or dark (t)"><svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true"><circle cx="6" cy="6" r="5" fill="none" stroke="currentColor" /><path d="M6 1a5 5 0 0 1 0 10z" fill="currentColor" /></svg></button>
      {!outside.value && <button class="plain" onClick={() => void signOut()}>Sign out</button>}
    </header>
  );
}

function Navigation() {
  return (
    <nav class={menu.value ? "nav open" : "nav"} aria-label="Views" ref={roving} onClick={() => { menu.value = false; }}>
      {available.value.map((view: View) => (
        <a key={view.name} href={link(view.name)} aria-current={view === current.value ? "page" : undefined}>
          {view.title}<kbd>{view.key}</kbd>
        </a>
      ))}
    </nav>
  );
}

function Changes() {
  if (!changes.value.length) return null;
  const text = changes.value.map(({ method, what }) => `${typeOf(method.replace("_", "."))} ${what === "changed" ? "has changed" : `is ${what}`}`).join(", ");
  return (
    <div class="banner" role="status" data-testid="changes">
      <span class="spread" title={text}>{changes.value.length > 1 && `${changes.value.length} methods: `}{text}</span>
      <button onClick={() => { changes.value = []; }}>Dismiss</button>
    </div>
  );
}

/** The notifications that wait to be seen. */
function Notices() {
  if (!notices.value.length) return null;
  const more = unseen.value - Math.min(3, notices.value.length);
  return (
    <div class="banner" role="status" data-testid="notices">
      <span class="spread whole">
        {notices.value.slice(0, 3).map(({ id, title, text, at }) => <div key={id}>{title && <strong>{title}: </strong>}{text} <span class="faint">{date(at)}</span></div>)}
        {more > 0 && <div class="faint">and {more} more</div>}
      </span>
      {permission.value === "default" && <button onClick={() => void askPermission()}>Notify in this browser</button>}
      {has("notify_seen") && <button onClick={() => void markSeen()}>Seen</button>}
    </div>
  );
}

/** What a browser shows that isn't signed in: why, and what signs it in. */
function SignIn() {
  return (
    <section class="body signin">
      <h2>Sign in</h2>
      <p role="alert" data-testid="refused">{refused.value}.</p>
      <p>To open the console, type this in a terminal of the machine that the kernel runs on:</p>
      <pre>kernos console</pre>
      <p class="faint">The address that it opens lets one browser in, within a minute.</p>
    </section>
  );
}

/** What there is to say about the way in: why this browser is not let in, and whether it acts for the owner. */
function Door() {
  const until = browser.value?.owner, ended = ownerEnded.value;
  return (
    <>
      {refused.value && (
        <div class="banner" role="alert" data-testid="refused">
          <span class="spread whole">{refused.value}.{!refused.value.includes("kernos console") && " Type kernos console in a terminal of this machine to open the console."}</span>
          {status.value === "online" && <button onClick={() => { refused.value = ""; }}>Dismiss</button>}
        </div>
      )}
      {until && <div class="banner" role="status" data-testid="owner"><span class="spread whole">This browser acts for the owner until {date(until)}.</span></div>}
      {ended > 0 && (
        <div class="banner" role="status" data-testid="owner-ended">
          <span class="spread whole">This browser acted for the owner until {date(ended)}, and no longer does. Type kernos console --owner in a terminal for another hour.</span>
          <button onClick={() => { ownerEnded.value = 0; }}>Dismiss</button>
        </div>
      )}
    </>
  );
}

function StatusLine() {
  const text = {
    connecting: "Connecting",
    online: "Connected",
    lost: status.value === "lost" && `Connection lost ${lasted(lostAt.value)} ago. Trying again`, // the time is looked at then only
    "signed-out": "Signed out. Type kernos console in a terminal to sign in",
  }[status.value];
  return (
    <footer class="status" data-testid="status" data-status={status.value}>
      <span role="status">{text}</span>
      {status.value === "online" && <span>{roundTrip.value.toFixed(1)} ms</span>}
      <span class="spread" />
      {stale.value && <span class="error">The list of methods may be old: {stale.value}</span>}
      {!outside.value && <span>{modules.value.reduce((sum, module) => sum + module.methods.length, 0)} methods</span>}
      <span class="mono">{serviceHash.value.slice(0, 8)}</span>
    </footer>
  );
}

/** Gives the focus to the first field of a form, or to the view. */
const skip = () => (document.querySelector<HTMLElement>("main :is(.form, .editor) :is(input, select, textarea)") ?? document.querySelector("main"))?.focus();

function App() {
  useEffect(() => bind(
    { keys: "Ctrl k", does: "go to a method, key, message or action", run: openPalette },
    { keys: "?", does: "show the keys", run: openSheet },
    { keys: "t", does: "change between light and dark", run: toggleTheme },
  ), []);
  useEffect(() => bind(...available.value.map((view) => ({ keys: view.key, does: `go to ${view.title}`, run: () => go(link(view.name)) }))), [available.value]);
  useEffect(() => addFinder((typed) => [
    ...available.peek().map((view) => ({ name: view.title, hint: "view", mark: view.key, run: () => go(link(view.name)) })),
    { name: "Light or dark", hint: "change the theme", mark: "t", run: toggleTheme },
    { name: "Keys", hint: "show the keys", mark: "?", run: openSheet },
    { name: "Sign out", hint: "end the sign-in of this browser", run: () => void signOut() },
  ].filter((entry) => entry.name.toLowerCase().includes(typed.toLowerCase())), ">"), []);
  useEffect(() => {
    const added = available.value.flatMap((view) => (view.find ? [addFinder(view.find, view.sign)] : []));
    return () => added.forEach((remove) => remove());
  }, [available.value]);
  useEffect(() => { document.body.classList.toggle("offline", status.value !== "online" && !outside.value); }, [status.value, outside.value]);
  useEffect(() => { // the other views, before the connection may be lost
    if (status.value === "online") setTimeout(() => available.peek().forEach((view) => void view.load().catch(() => {})), 1000);
  }, [status.value === "online"]);
  const view = current.value;
  const content = useMemo(() => <Lazy key={view.name} load={view.load} />, [view]);
  useEffect(() => { document.title = `${view.title} · Kernos`; }, [view]);
  return (
    <>
      <button class="skip" onClick={skip}>Skip to the content</button>
      <Top />
      {!outside.value && <Navigation />}
      {outside.value ? <main class="work" tabIndex={-1}><h1 class="unseen">Sign in</h1><SignIn /></main>
        : <main class="work" tabIndex={-1} data-testid="view" data-view={view.name}><h1 class="unseen">{view.title}</h1><Door /><Notices /><Changes />{content}</main>}
      <StatusLine />
      <Palette />
      <Sheet />
    </>
  );
}

void connect();
render(<App />, document.body);
