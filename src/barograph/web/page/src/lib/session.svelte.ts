/** Whether the server asks for a token, and what the visitor may do. */
export const session = $state({ needsToken: false });
