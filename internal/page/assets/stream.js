// The connection to whoever serves the page: a stream of differences. It is read with
// fetch, not with EventSource, which could not send a token.

const KEY = 'fairlead-token';
const RETRY = 1500;
const PATIENCE = 12000; // something is sent every other second

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: text => sessionStorage.setItem(KEY, text),
};

const headers = () => (token.get() ? {Authorization: 'Bearer ' + token.get()} : {});

export class Refused extends Error {}

async function get(path, options) {
  const answer = await fetch(path, {cache: 'no-store', headers: headers(), ...options});
  if (answer.status === 401 || answer.status === 403) throw new Refused((await answer.text()).trim());
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer;
}

export const why = async about => (await get('data/why?about=' + encodeURIComponent(about))).json();

const pause = ms => new Promise(done => setTimeout(done, ms));

// follow calls changed with each message, lost when the connection ends, and refused when
// a token is needed; it waits for what refused returns.
export async function follow({changed, lost, refused}) {
  for (;;) {
    const stop = new AbortController();
    let alarm;
    const awake = () => {
      clearTimeout(alarm);
      alarm = setTimeout(() => stop.abort(), PATIENCE);
    };
    try {
      awake();
      const answer = await get('data/changes', {signal: stop.signal});
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        const {done, value} = await reader.read();
        if (done) break;
        awake();
        rest += value;
        if (!value.includes('\n')) continue;
        const parts = rest.split('\n\n');
        rest = parts.pop();
        for (const part of parts) if (part.startsWith('data: ')) changed(JSON.parse(part.slice(6)));
      }
    } catch (e) {
      if (e instanceof Refused) {
        await refused(e.message);
        continue;
      }
      lost();
    } finally {
      clearTimeout(alarm);
    }
    await pause(RETRY);
  }
}
