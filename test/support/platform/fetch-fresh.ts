// Requests that share no connection: a server that stood still for a while closes an idle one just as the next request
// goes out on it.

/** As fetch, on a connection of its own. */
export const fetchFresh = (url: string, init: RequestInit = {}): Promise<Response> => {
  const headers = new Headers(init.headers);
  headers.set("connection", "close");
  return fetch(url, { ...init, headers });
};
